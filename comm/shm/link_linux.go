package shm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Supported says whether this system can share memory.
const Supported = true

// Host names what two processes must have in common to share memory: the machine
// since its last start, the view of its processes, and the user. It is empty
// where that cannot be told.
func Host() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	view, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %s uid:%d", strings.TrimSpace(string(boot)), view, os.Geteuid())
}

// Create makes memory with rings of size bytes and the offer for the other side.
// Nothing of it has a name, so nothing is left behind however this process ends.
func Create(size int) (_ *Link, o Offer, err error) {
	if err := checkSize(size); err != nil {
		return nil, o, err
	}
	fd, err := unix.MemfdCreate("gradlab-link", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, o, fmt.Errorf("shared memory: %w", err)
	}
	l := &Link{fd: fd}
	defer func() {
		if err != nil {
			l.Close()
			l.Unmap()
		}
	}()
	total := atData + 2*size
	if err := unix.Ftruncate(fd, int64(total)); err != nil {
		return nil, o, fmt.Errorf("shared memory of %d bytes: %w", total, err)
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, o, fmt.Errorf("sealing shared memory: %w", err)
	}
	if l.mem, err = unix.Mmap(fd, 0, total, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, o, fmt.Errorf("mapping shared memory: %w", err)
	}
	o = Offer{PID: os.Getpid(), Memory: fd, Size: size, Nonce: newNonce()}
	copy(l.mem[atNonce:], o.Nonce)
	// Of each pipe we keep one end; the other side opens the other end by ours.
	var ends [4]*os.File // data out, room in, data in, room out
	for i := range ends {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			closeAll(ends[:i])
			return nil, o, fmt.Errorf("pipe: %w", err)
		}
		keep, drop := p[1], p[0] // we ring
		if i == 1 || i == 2 {
			keep, drop = drop, keep // we listen
		}
		_ = unix.Close(drop)
		ends[i], o.Bells[i] = os.NewFile(uintptr(keep), "bell"), keep
	}
	l.lay(size, 0, &bell{file: ends[0]}, &bell{file: ends[3]}, &ear{file: ends[2]}, &ear{file: ends[1]})
	return l, o, nil
}

// seals keep the other side from making the memory shorter, which would end a
// process that touches what is no more.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// Open takes an offer of another process of this host. limit bounds the size of
// its rings.
func Open(o Offer, limit int) (_ *Link, err error) {
	if err := checkSize(o.Size); err != nil {
		return nil, err
	}
	if o.Size > limit {
		return nil, fmt.Errorf("a ring of %d bytes, at most %d are accepted", o.Size, limit)
	}
	open := func(fd, flags int) (int, error) {
		n, err := unix.Open(fmt.Sprintf("/proc/%d/fd/%d", o.PID, fd), flags|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, fmt.Errorf("descriptor %d of process %d: %w", fd, o.PID, err)
		}
		return n, nil
	}
	l := &Link{fd: -1}
	if l.fd, err = open(o.Memory, unix.O_RDWR); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			l.Close()
			l.Unmap()
		}
	}()
	total := atData + 2*o.Size
	var st unix.Stat_t
	if err := unix.Fstat(l.fd, &st); err != nil {
		return nil, err
	}
	has, err := unix.FcntlInt(uintptr(l.fd), unix.F_GET_SEALS, 0)
	if err != nil || has&seals != seals || st.Size != int64(total) {
		return nil, errors.New("what is offered is not sealed memory of the size agreed")
	}
	if l.mem, err = unix.Mmap(l.fd, 0, total, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("mapping shared memory: %w", err)
	}
	if len(o.Nonce) != nonceSize || !bytes.Equal(l.mem[atNonce:atNonce+nonceSize], o.Nonce) {
		return nil, errors.New("the memory is not the one that was offered")
	}
	var ends [4]*os.File
	for i, fd := range o.Bells {
		flags := unix.O_RDONLY // they ring
		if i == 1 || i == 2 {
			flags = unix.O_WRONLY // they listen
		}
		n, err := open(fd, flags|unix.O_NONBLOCK)
		if err == nil {
			if err = unix.Fstat(n, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFIFO {
				err = fmt.Errorf("descriptor %d of process %d is no pipe", fd, o.PID)
			}
			if err != nil {
				_ = unix.Close(n)
			}
		}
		if err != nil {
			closeAll(ends[:i])
			return nil, err
		}
		ends[i] = os.NewFile(uintptr(n), "bell")
	}
	l.lay(o.Size, 1, &bell{file: ends[2]}, &bell{file: ends[1]}, &ear{file: ends[0]}, &ear{file: ends[3]})
	copy(l.mem[atAnswer:], answerTo(o.Nonce))
	l.Settle()
	return l, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// Settle gives up what only the handshake needed.
func (l *Link) Settle() {
	if l.fd >= 0 {
		_ = unix.Close(l.fd)
		l.fd = -1
	}
}

// Close ends all waits on both sides. It may be called more than once and by
// anybody.
func (l *Link) Close() {
	if l.closed == nil || l.closed.Swap(true) {
		return
	}
	_ = l.In.bell.file.Close()
	_ = l.In.ear.file.Close()
	_ = l.Out.bell.file.Close()
	_ = l.Out.ear.file.Close()
}

// Unmap gives the memory back. Nobody may be reading or writing any more.
func (l *Link) Unmap() {
	l.Settle()
	if l.mem != nil {
		_ = unix.Munmap(l.mem)
		l.mem = nil
	}
}
