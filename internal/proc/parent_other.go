//go:build !linux

package proc

import "os/exec"

// dieWithParent: only Linux can promise it; elsewhere a parent that is killed leaves its children running.
func dieWithParent(*exec.Cmd) {}
