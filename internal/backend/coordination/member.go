package coordination

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// member is an etcd of one member that runs in this process.
//
// etcd was written to be its own process: where it cannot continue, for example
// when no file can be opened, it logs at the level Fatal or Panic, and expects
// the logger to end the process. The logger of a member only ends the goroutine
// that logs; from then on the member has failed.
type member struct {
	dir  string
	etcd *embed.Etcd // nil if it did not start

	started chan struct{} // closed when StartEtcd has returned or failed
	failed  chan struct{} // closed with the first failure
	ended   chan struct{} // closed when the member is to stop
	closing sync.Once
	closed  chan struct{} // closed when etcd is closed

	mu       sync.Mutex
	failure  error // the first
	stopping bool
	startErr error // StartEtcd's error
}

// memberStopLimit bounds the stop of a member. A member that has failed may wait
// forever for a goroutine that has ended; what is left of it ends with the process.
const memberStopLimit = 10 * time.Second

// startMember starts a member whose files are in dir, and waits until it serves.
func startMember(ctx context.Context, dir string) (*member, error) {
	m := &member{
		dir: dir, started: make(chan struct{}), failed: make(chan struct{}), ended: make(chan struct{}), closed: make(chan struct{}),
	}
	go func() {
		defer close(m.started)
		defer m.recover()
		m.etcd, m.startErr = embed.StartEtcd(m.config())
	}()
	if err := m.awaitReady(ctx); err != nil {
		return nil, errors.Join(err, m.stop())
	}
	go m.watch()
	return m, nil
}

func (m *member) awaitReady(ctx context.Context) error {
	select {
	case <-m.started:
	case <-m.failed:
		return m.err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if m.etcd == nil {
		return errors.Join(m.startErr, m.err())
	}
	select {
	case <-m.etcd.Server.ReadyNotify():
		return nil
	case err := <-m.etcd.Err():
		return err
	case <-m.failed:
		return m.err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// watch closes a member that fails, so that its clients are refused at once
// instead of waiting for answers that never come. It returns when the member ends.
func (m *member) watch() {
	select {
	case err, open := <-m.etcd.Err():
		if open {
			m.fail(err)
		}
	case <-m.failed:
	case <-m.ended:
	}
	m.close()
}

// err returns why the member failed, or nil.
func (m *member) err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failure
}

// fail records the first failure. Errors while the member is being stopped are
// not failures.
func (m *member) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failure == nil && !m.stopping {
		m.failure = fmt.Errorf("%w: %w", ErrFailed, err)
		close(m.failed)
	}
}

// stop ends the member and removes its files. It may be called only once.
func (m *member) stop() error {
	m.mu.Lock()
	m.stopping = true
	m.mu.Unlock()
	close(m.ended)
	m.close()
	if err := os.RemoveAll(m.dir); err != nil {
		return fmt.Errorf("remove the files of etcd: %w", err)
	}
	return nil
}

// close closes what has started, once. It returns when that is done, or after
// memberStopLimit.
func (m *member) close() {
	m.closing.Do(func() {
		go func() {
			defer close(m.closed) // deferred, because etcd may end this goroutine through its logger
			defer m.recover()
			<-m.started
			if m.etcd != nil {
				m.etcd.Close()
			}
		}()
	})
	select {
	case <-m.closed:
	case <-time.After(memberStopLimit):
	}
}

// recover turns a panic of etcd into a failure, in the goroutines that this package
// starts.
func (m *member) recover() {
	if r := recover(); r != nil {
		m.fail(fmt.Errorf("panic: %v", r))
	}
}

// OnWrite is called for what etcd logs at the levels Fatal and Panic. It ends
// the goroutine, because etcd's code after such a call does not expect to be
// reached.
func (m *member) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	err := errors.New(entry.Message)
	for _, f := range fields {
		if cause, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			err = fmt.Errorf("%w: %w", err, cause)
		}
	}
	m.fail(err)
	runtime.Goexit()
}

// logger discards all messages and never ends the process.
func (m *member) logger() *zap.Logger {
	return zap.New(zapcore.NewNopCore(), zap.WithFatalHook(m), zap.WithPanicHook(m))
}
