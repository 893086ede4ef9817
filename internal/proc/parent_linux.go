package proc

import (
	"os/exec"
	"syscall"
)

// dieWithParent lets no child outlive a killed parent.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
