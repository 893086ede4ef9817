//go:build !unix

package mcp

import "net"

// listenPrivate relies on the folder's access list.
func listenPrivate(path string) (net.Listener, error) { return net.Listen("unix", path) }
