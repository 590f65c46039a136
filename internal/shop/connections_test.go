package shop

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is an in-memory listener for use in a synctest bubble.
type pipes struct {
	conns chan net.Conn
	errs  chan error
	ended chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case err := <-p.errs:
		return nil, err
	default:
	}
	select {
	case err := <-p.errs:
		return nil, err
	case c := <-p.conns:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.ended) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

// served is a server whose listener is of the type connections.
type served struct {
	pipes  *pipes
	limits *connections
	log    *strings.Builder
	handle http.HandlerFunc // ok by default
}

// serving runs f in a bubble with a server that has this limit of connections.
func serving(t *testing.T, most int, f func(t *testing.T, s *served)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &served{
			pipes:  &pipes{conns: make(chan net.Conn), errs: make(chan error, 10), ended: make(chan struct{})},
			log:    new(strings.Builder),
			handle: ok,
		}
		s.limits = newConnections(s.pipes, most, writeTimeout, slog.New(slog.NewTextHandler(s.log, nil)))
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.handle(w, r) })
		server := &http.Server{
			Handler: s.limits.closeIfCrowded(h), ReadHeaderTimeout: headerTimeout, ConnState: s.limits.track,
		}
		ended := make(chan error, 1)
		go func() { ended <- server.Serve(s.limits) }()
		f(t, s)
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the server ended with %v", err)
		}
		synctest.Wait()
		s.limits.mu.Lock()
		defer s.limits.mu.Unlock()
		if open, listed := len(s.limits.open), s.limits.silent.Len()+s.limits.idle.Len(); open > 0 || listed > 0 {
			t.Errorf("%d connections are still open, %d are listed", open, listed)
		}
	})
}

// client is one connection to the server.
type client struct {
	net.Conn
	replies *bufio.Reader
}

// connect returns when the listener has accepted the connection, which may still wait to be
// admitted.
func (s *served) connect() *client {
	here, there := net.Pipe()
	s.pipes.conns <- there
	return &client{here, bufio.NewReader(here)}
}

// ask sends a request and returns the reply, or an error.
func (c *client) ask(path string) (*http.Response, error) {
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: shop\r\n\r\n", path); err != nil {
		return nil, err
	}
	res, err := http.ReadResponse(c.replies, nil)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return res, err
}

// gone reports whether the server has closed the connection.
func (c *client) gone() bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := c.replies.ReadByte()
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }

func TestIdleConnectionGivesItsPlaceToANewOne(t *testing.T) {
	serving(t, 2, func(t *testing.T, s *served) {
		first, second := s.connect(), s.connect()
		for _, c := range []*client{first, second} {
			if _, err := c.ask("/"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // until the server knows that the connection is idle
		}
		began := time.Now()
		third := s.connect()
		if res, err := third.ask("/"); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", res, err)
		}
		if waited := time.Since(began); waited > time.Millisecond {
			t.Errorf("the third connection waited for %v", waited)
		}
		if !first.gone() || second.gone() {
			t.Error("another connection was closed than the one that was idle longest")
		}
	})
}

func TestSilentConnectionsKeepNobodyOut(t *testing.T) {
	const most = 4
	serving(t, most, func(t *testing.T, s *served) {
		for range most {
			s.connect()
		}
		began := time.Now()
		buyer := s.connect()
		if res, err := buyer.ask("/"); err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", res, err)
		}
		if waited := time.Since(began); waited > 2*silence {
			t.Errorf("the buyer waited for %v behind silent connections", waited)
		}
		if log := s.log.String(); !strings.Contains(log, "the limit of connections is reached") {
			t.Errorf("the log says %q", log)
		}
	})
}

// A closing shop does not wait for connections on which no request was ever sent. Browsers open such
// connections.
func TestSilentConnectionsAreClosedAtTheEnd(t *testing.T) {
	serving(t, 4, func(t *testing.T, s *served) {
		silent, busy := s.connect(), s.connect()
		if _, err := busy.ask("/"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.limits.closeSilent()
		late := s.connect()
		synctest.Wait()
		if !silent.gone() || !late.gone() || busy.gone() {
			t.Error("other connections were closed than the silent ones")
		}
	})
}

// A client that never completes its header is cut off when the time limit for headers is over, which
// is shorter than the limit for a whole request.
func TestHeaderThatNeverEndsIsCut(t *testing.T) {
	serving(t, 4, func(t *testing.T, s *served) {
		c := s.connect()
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: sh"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(headerTimeout + time.Second)
		if !c.gone() {
			t.Error("the connection is still open")
		}
	})
}

func TestRequestsUnderWayKeepTheirPlaces(t *testing.T) {
	serving(t, 1, func(t *testing.T, s *served) {
		leave := make(chan struct{})
		s.handle = func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				<-leave
			}
			ok(w, r)
		}
		holder := s.connect()
		var res *http.Response
		var err error
		held := make(chan struct{})
		go func() {
			defer close(held)
			res, err = holder.ask("/slow")
		}()
		synctest.Wait()
		next := s.connect()
		asked := make(chan error, 1)
		go func() {
			_, err := next.ask("/")
			asked <- err
		}()
		time.Sleep(20 * time.Second)
		select {
		case err := <-asked:
			t.Fatalf("the second was served beside the first: %v", err)
		default:
		}
		leave <- struct{}{}
		<-held
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("the first, after a wait that is longer than the limit for writing: %v, %v", res, err)
		}
		if err := <-asked; err != nil {
			t.Errorf("the second: %v", err)
		}
	})
}

// A full shop replies with Connection: close. Otherwise the client might send another request while
// the connection is being closed, and would not know whether the shop received it.
func TestReplyOfAFullShopSaysThatTheConnectionEnds(t *testing.T) {
	serving(t, 1, func(t *testing.T, s *served) {
		leave := make(chan struct{})
		s.handle = func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				<-leave
			}
			ok(w, r)
		}
		go func() { _, _ = s.connect().ask("/slow") }()
		synctest.Wait()
		next := s.connect() // waits for the first connection to end
		go s.connect()      // a third connection waits for the second to end
		close(leave)
		synctest.Wait()
		if res, err := next.ask("/"); err != nil || !res.Close {
			t.Errorf("%v, %v; want Connection: close", res, err)
		}
	})
}

func TestFailedAcceptDoesNotEndTheServer(t *testing.T) {
	serving(t, 2, func(t *testing.T, s *served) {
		idle := s.connect()
		if _, err := idle.ask("/"); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, errors.New("whatever else")} {
			s.pipes.errs <- &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", err)}
		}
		synctest.Wait()
		// The listener is already waiting for a connection, so it returns this one before the errors.
		if _, err := s.connect().ask("/"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if _, err := s.connect().ask("/"); err != nil {
			t.Fatalf("after the errors: %v", err)
		}
		if !idle.gone() {
			t.Error("an idle connection was not closed although no file descriptor is left")
		}
	})
}

func TestClientThatNeverReadsIsCut(t *testing.T) {
	serving(t, 2, func(t *testing.T, s *served) {
		errs := make(chan error, 1)
		s.handle = func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Minute) // as if it waited for a lock
			_, err := w.Write(make([]byte, 10*writePiece))
			errs <- err
		}
		c := s.connect()
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: shop\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := <-errs; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the reply ended with %v", err)
		}
		if took := time.Since(began); took != time.Minute+10*time.Second {
			t.Errorf("the client was cut after %v, want the minute of the handler and the limit", took)
		}
		synctest.Wait()
		s.limits.mu.Lock()
		defer s.limits.mu.Unlock()
		if n := len(s.limits.open); n != 0 {
			t.Errorf("%d connections are still open", n)
		}
	})
}

// A slow client that keeps reading gets a whole reply, even if that takes longer than the time limit
// of one write.
func TestSlowReaderGetsAll(t *testing.T) {
	const pieces = 8
	large := make([]byte, pieces*writePiece)
	serving(t, 2, func(t *testing.T, s *served) {
		s.handle = func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(large) }
		c := s.connect()
		if _, err := io.WriteString(c, "GET / HTTP/1.0\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		got, piece := 0, make([]byte, writePiece)
		for {
			n, err := io.ReadFull(c.replies, piece)
			got += n
			if err != nil {
				break
			}
			time.Sleep(5 * time.Second)
		}
		if got < len(large) {
			t.Errorf("%d bytes of %d", got, len(large))
		}
	})
}

// An event stream has a time limit for each event, but none between events.
func TestEventStreamThatIsNotReadIsCut(t *testing.T) {
	serving(t, 2, func(t *testing.T, s *served) {
		errs := make(chan error, 1)
		s.handle = func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			for {
				_, err := io.WriteString(w, "data: 1\n\n")
				if err = errors.Join(err, control.Flush()); err != nil {
					errs <- err
					return
				}
				time.Sleep(time.Minute)
			}
		}
		c := s.connect()
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: shop\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(c.replies, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		event := make([]byte, len("data: 1\n\n"))
		for range 5 {
			if _, err := io.ReadFull(res.Body, event); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		if err := <-errs; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the stream ended with %v", err)
		}
		if took := time.Since(began); took != time.Minute+writeTimeout {
			t.Errorf("a client that stopped reading was cut off after %v, want the minute and the limit", took)
		}
	})
}

func TestPlaces(t *testing.T) {
	for _, c := range []struct{ files, reserved, want int }{
		{1024, 512, 512},      // a low limit: half of it
		{20_000, 512, 19_232}, // a high limit: all files that the process does not need
		{20_000, 0, 19_744},   // more if nothing else in the process needs files
		{256, 512, 128},       // never 0
		{1 << 31, 512, 1<<31 - 768},
	} {
		if got := maxConnections(c.files, c.reserved); got != c.want {
			t.Errorf("%d files, %d reserved: %d connections, want %d", c.files, c.reserved, got, c.want)
		}
	}
}
