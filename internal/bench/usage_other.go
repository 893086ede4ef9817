//go:build !linux

package bench

import (
	"errors"
	"os"
	"time"
)

// Only Linux tells what another process uses; elsewhere those figures stay empty.
func cpuOf(int) (time.Duration, error) { return 0, errors.ErrUnsupported }
func rssOf(int) (int64, error)         { return 0, errors.ErrUnsupported }
func ownCPU() time.Duration            { return 0 }

// datasync is as near to the ledger's sync as this system offers.
func datasync(f *os.File) error { return f.Sync() }

func preciseSleep() (release func()) { return func() {} }
func sleepUntil(t time.Time)         { time.Sleep(time.Until(t)) }

// placement: processes run wherever the system puts them.
type placement struct{}

func place() (*placement, func())                       { return nil, func() {} }
func (*placement) inTheMiddle(start func() error) error { return start() }
func openFiles(n uint64) uint64                         { return n }
