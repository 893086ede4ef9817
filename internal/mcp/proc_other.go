//go:build !unix

package mcp

import "os/exec"

func ownGroup(*exec.Cmd) {}

// There is no gentle way; the error says that the process has ended.
func askToEnd(cmd *exec.Cmd)   { _ = cmd.Process.Kill() }
func forceToEnd(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
