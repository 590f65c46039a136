//go:build !unix

package backendtest

import "oversell/internal/proc"

// Stop cannot halt a server here.
func (r *LocalRedis) Stop() error { return proc.ErrUnsupported }

// Cont has nothing to let go on here.
func (r *LocalRedis) Cont() error { return proc.ErrUnsupported }

// Stop cannot halt a server here.
func (d *LocalDatabase) Stop() error { return proc.ErrUnsupported }

// Cont has nothing to let go on here.
func (d *LocalDatabase) Cont() error { return proc.ErrUnsupported }
