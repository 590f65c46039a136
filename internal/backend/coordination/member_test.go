package coordination

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"oversell/internal/backend/backendtest"
)

// etcd ends its process when it cannot continue, for example when it looks for
// old files to delete and no file can be opened. Here that process is the shop,
// which must keep running.
func TestEmbeddedEtcdThatCannotGoOnLeavesTheProcessAlone(t *testing.T) {
	for name, say := range map[string]func(*zap.Logger, error){
		"fatal": func(l *zap.Logger, err error) { l.Fatal("failed to purge wal file", zap.Error(err)) },
		"panic": func(l *zap.Logger, err error) { l.Panic("failed to create snapshot", zap.Error(err)) },
		"raft's": func(l *zap.Logger, err error) {
			l.Sugar().Panicf("unexpected error when getting the last term: %v", err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			emptyTempDir(t)
			etcd, err := ServeEtcd(t.Context(), "embedded")
			if err != nil {
				t.Fatal(err)
			}
			if err := etcd.Err(); err != nil {
				t.Errorf("before anything happened: %v", err)
			}
			client, err := DialEtcd(t.Context(), etcd.Endpoints)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()

			cause := errors.New("too many open files")
			over, wentOn := make(chan struct{}), false
			go func() {
				defer close(over)
				say(etcd.member.etcd.Server.Logger(), cause)
				wentOn = true
			}()
			<-over
			if wentOn {
				t.Error("what follows the fatal word was run")
			}
			if err := etcd.Err(); !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), cause.Error()) {
				t.Errorf("the server says %v; want %v and the cause", err, ErrFailed)
			}
			<-etcd.member.closed
			if name == "fatal" { // its clients are not left waiting for it; to see that takes seconds
				ctx, cancel := context.WithTimeout(t.Context(), backendtest.Slack)
				defer cancel()
				if _, err := DialEtcd(ctx, etcd.Endpoints); !errors.Is(err, ErrUnreachable) {
					t.Errorf("a client is told %v; want %v", err, ErrUnreachable)
				}
			}
			began := time.Now()
			for range 2 {
				if err := etcd.Close(); err != nil {
					t.Error(err)
				}
			}
			if took := time.Since(began); took > memberStopLimit {
				t.Errorf("closing took %v", took)
			}
		})
	}
}
