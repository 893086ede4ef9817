//go:build !linux

package pgtest

import "os/exec"

// unprivileged: elsewhere than on Linux tests are not run as root.
func unprivileged(cmd *exec.Cmd, files ...string) error {
	cmd.Dir = files[0]
	return nil
}
