//go:build unix

package mcp

import (
	"os/exec"
	"syscall"
)

// ownGroup lets a server be ended with what it started: npx runs a shell that runs the server.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// Their errors say that the group has ended.
func askToEnd(cmd *exec.Cmd)   { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
func forceToEnd(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
