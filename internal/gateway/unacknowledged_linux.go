package gateway

import (
	"net"

	"golang.org/x/sys/unix"
)

// unacknowledged is how many bytes that were written the far kernel has not acknowledged. A reset leaves it as it was.
func unacknowledged(c *net.TCPConn) (n int64, ok bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false
	}
	var waiting int
	var asked error
	if err := raw.Control(func(fd uintptr) { waiting, asked = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }); err != nil || asked != nil {
		return 0, false
	}
	return int64(waiting), true
}
