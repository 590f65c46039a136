package fault

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// A RedisHandler decides what happens to a command. It calls send at most once; send lets the
// server execute the command. The handler returns the reply for the client, or an error, which
// breaks the connection.
//
// ctx ends when the client has hung up. The handler may then send the command or drop it, because
// in a real network the command may or may not arrive in this case.
type RedisHandler func(ctx context.Context, cmd Command, send func() (Value, error)) (Value, error)

// RelayRedis passes commands and replies between a client and a server until one of them hangs up,
// ctx ends, or handle returns an error. It then closes both connections, and returns when all of
// its goroutines have returned.
func RelayRedis(ctx context.Context, client, server net.Conn, handle RedisHandler) {
	ctx, hangUp := context.WithCancel(ctx)
	defer hangUp()
	l := &link{client: client, server: server, replies: make(chan Value), over: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { client.Close() })
	defer stop()

	var all sync.WaitGroup
	all.Go(func() { defer hangUp(); l.receive() })
	// The queue lets a client send several commands before it reads the first reply.
	queue := make(chan Command, maxQueue)
	all.Go(func() { defer hangUp(); l.read(queue) })
	all.Go(func() { defer hangUp(); l.serve(ctx, queue, handle) })
	all.Wait()
}

// maxQueue is the maximum number of waiting commands of a client.
const maxQueue = 4096

type link struct {
	client, server net.Conn
	replies        chan Value    // from the server, except pushes
	over           chan struct{} // closed when no command waits for a reply any more
	writing        sync.Mutex    // a push may arrive while a reply is being written
}

var errGone = errors.New("fault: the server is gone")

func (l *link) read(out chan<- Command) {
	defer close(out)
	r := bufio.NewReader(l.client)
	for {
		cmd, err := readCommand(r)
		if err != nil {
			return
		}
		out <- cmd
	}
}

// serve handles one command after another. If the client hangs up, the connection to the server
// stays open until the current command is handled, so a write that was sent still arrives.
func (l *link) serve(ctx context.Context, queue <-chan Command, handle RedisHandler) {
	defer l.server.Close()
	defer close(l.over)
	for cmd := range queue {
		if ctx.Err() != nil {
			break // the client has hung up, so its remaining commands are lost
		}
		reply, err := handle(ctx, cmd, func() (Value, error) { return l.exchange(cmd) })
		if err != nil || l.write(reply) != nil {
			break
		}
	}
	l.client.Close()
	for range queue { // later commands are lost
	}
}

func (l *link) exchange(cmd Command) (Value, error) {
	if _, err := l.server.Write(cmd.Raw); err != nil {
		return nil, err
	}
	reply, ok := <-l.replies
	if !ok {
		return nil, errGone
	}
	return reply, nil
}

// receive reads the values from the server. It passes a reply to the command that waits for it, and
// sends a push to the client immediately.
func (l *link) receive() {
	defer close(l.replies)
	r := bufio.NewReader(l.server)
	for {
		v, err := readValue(r)
		if err != nil {
			return
		}
		if v.Push() {
			_ = l.write(v) // if the client has hung up, l.read notices that
			continue
		}
		select {
		case l.replies <- v:
		case <-l.over:
			return
		}
	}
}

func (l *link) write(v Value) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	_, err := l.client.Write(v)
	return err
}

// Pipe is like net.Pipe, but a deadline can be set after the other end was closed, as on a network
// connection. With net.Pipe, a client that sets a deadline before it reads would get a different
// error from one that is already reading, so the error would depend on chance.
func Pipe() (net.Conn, net.Conn) {
	one, other := net.Pipe()
	return end{one}, end{other}
}

type end struct{ net.Conn }

func (e end) SetDeadline(t time.Time) error      { return unlessClosed(e.Conn.SetDeadline(t)) }
func (e end) SetReadDeadline(t time.Time) error  { return unlessClosed(e.Conn.SetReadDeadline(t)) }
func (e end) SetWriteDeadline(t time.Time) error { return unlessClosed(e.Conn.SetWriteDeadline(t)) }

// unlessClosed returns nil for the error of a closed end, because the next read or write reports
// that error.
func unlessClosed(err error) error {
	if errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}
