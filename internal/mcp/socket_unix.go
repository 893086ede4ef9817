//go:build unix

package mcp

import (
	"net"
	"os"
	"syscall"
)

// listenPrivate makes the socket's file with mode 0600 from its first moment on.
func listenPrivate(path string) (net.Listener, error) {
	was := syscall.Umask(0o177)
	l, err := net.Listen("unix", path)
	syscall.Umask(was)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}
