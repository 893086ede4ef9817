//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package upstream

import "syscall"

// quiet looks at an idle connection without waiting or taking a byte: it is quiet while it is open and has nothing to
// read. A byte that nobody asked for would be taken for the next answer.
func quiet(fd uintptr) bool {
	var b [1]byte
	for {
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		if err == syscall.EINTR {
			continue
		}
		return n < 0 && (err == syscall.EAGAIN || err == syscall.EWOULDBLOCK)
	}
}
