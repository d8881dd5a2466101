/* Rank of an MPI program that times MPI_Allreduce of float sums. Each rank reads
 * commands "allreduce BYTES ITERS" from a pipe of its own in the folder given, so
 * that nobody polls between them; rank 0 answers on standard output. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, world;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world);
  char path[4096], version[MPI_MAX_LIBRARY_VERSION_STRING];
  int length;
  MPI_Get_library_version(version, &length);
  version[strcspn(version, ",\n\"\\")] = 0;
  snprintf(path, sizeof path, "%s/%d", argv[1], rank);
  FILE *in = fopen(path, "r");
  if (!in) return 1;
  if (rank == 0) {
    printf("{\"version\":\"%s\"}\n", version);
    fflush(stdout);
  }
  long bytes, iters;
  while (fscanf(in, " allreduce %ld %ld", &bytes, &iters) == 2) {
    long n = bytes / 4;
    float *x = malloc(bytes + 4);
    for (long i = 0; i < n; i++) x[i] = (float)((rank + 1) * (i % 13 + 1));
    MPI_Allreduce(MPI_IN_PLACE, x, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (long i = 0; i < n; i++)
      if (x[i] != (float)(world * (world + 1) / 2 * (i % 13 + 1))) {
        printf("{\"error\":\"wrong sums\"}\n");
        fflush(stdout);
        MPI_Abort(MPI_COMM_WORLD, 1);
      }
    memset(x, 0, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (long i = 0; i < iters; i++) MPI_Allreduce(MPI_IN_PLACE, x, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
      printf("{\"seconds\":%.9f}\n", MPI_Wtime() - begin);
      fflush(stdout);
    }
    free(x);
  }
  MPI_Finalize();
  return 0;
}
