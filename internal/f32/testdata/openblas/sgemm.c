// Times OpenBLAS for the benchmark beside it. It reads lines
//
//	threads ta tb m n k repeats
//
// and answers each with the seconds that many calls of sgemm took (row-major,
// alpha 1, beta 0, after some milliseconds unmeasured), and what the library calls its
// kernels. The library is opened at run time: no headers or link files needed.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef void sgemm(int order, int ta, int tb, int m, int n, int k, float alpha,
                   const float *a, int lda, const float *b, int ldb, float beta,
                   float *c, int ldc);

enum { row_major = 101, no_trans = 111, trans = 112 };

static float *matrix(float *x, size_t n) {
	x = realloc(x, n * sizeof *x);
	if (!x)
		exit(1);
	for (size_t i = 0; i < n; i++)
		x[i] = (float)rand() / RAND_MAX - 0.5f;
	return x;
}

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void call(sgemm *f, int ta, int tb, int m, int n, int k, const float *a,
                 const float *b, float *c) {
	f(row_major, ta ? trans : no_trans, tb ? trans : no_trans, m, n, k, 1, a,
	  ta ? m : k, b, tb ? k : n, 0, c, n);
}

int main(int argc, char **argv) {
	void *lib = dlopen(argc > 1 ? argv[1] : "libopenblas.so.0", RTLD_NOW);
	if (!lib) {
		fprintf(stderr, "%s\n", dlerror());
		return 2; // not installed
	}
	sgemm *f = (sgemm *)dlsym(lib, "cblas_sgemm");
	void (*set_threads)(int) = (void (*)(int))dlsym(lib, "openblas_set_num_threads");
	char *(*core)(void) = (char *(*)(void))dlsym(lib, "openblas_get_corename");
	if (!f || !set_threads || !core) {
		fprintf(stderr, "not OpenBLAS\n");
		return 3;
	}
	float *a = 0, *b = 0, *c = 0;
	int was_m = 0, was_n = 0, was_k = 0;
	int threads, ta, tb, m, n, k, repeats;
	while (scanf("%d %d %d %d %d %d %d", &threads, &ta, &tb, &m, &n, &k, &repeats) == 7) {
		if (m != was_m || n != was_n || k != was_k) {
			a = matrix(a, (size_t)m * k);
			b = matrix(b, (size_t)k * n);
			c = matrix(c, (size_t)m * n);
			was_m = m, was_n = n, was_k = k;
		}
		set_threads(threads);
		double begin = now(), start;
		do {
			call(f, ta, tb, m, n, k, a, b, c);
			start = now();
		} while (start - begin < 0.005); // until all threads are awake
		for (int i = 0; i < repeats; i++)
			call(f, ta, tb, m, n, k, a, b, c);
		printf("%.9f %s\n", now() - start, core());
		fflush(stdout);
	}
	return 0;
}
