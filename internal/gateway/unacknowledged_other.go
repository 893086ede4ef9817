//go:build !linux

package gateway

import "net"

// unacknowledged is known under Linux only.
func unacknowledged(*net.TCPConn) (n int64, ok bool) { return 0, false }
