package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Server is the member's side of the protocol. It is safe for concurrent use.
type Server struct {
	Seams *Seams
	Words *Words // the shared words, or nil if there are none

	resume  chan struct{}
	obeying chan obeyer

	mu  sync.Mutex
	out *json.Encoder
}

// obeyer carries out an order and returns the answer.
type obeyer = func(ctx context.Context, order json.RawMessage) (answer any, err error)

// maxParked is larger than the number of calls that can wait at seams at the same time.
const maxParked = 64

// Serve is the main function of a member: it reads the setup from in, and calls run with it. It
// returns nil when in ends or ctx is cancelled. Since in ends with the process that started this
// one, this process does not outlive it. In all other cases Serve returns the error of run, or of a
// command that cannot be read or carried out. The process should exit after Serve.
func Serve[Setup any](
	ctx context.Context, in io.Reader, out io.Writer, run func(ctx context.Context, with Setup, s *Server) error,
) error {
	parent := ctx
	ctx, end := context.WithCancelCause(parent)
	defer end(nil)
	s := &Server{out: json.NewEncoder(out), resume: make(chan struct{}, maxParked), obeying: make(chan obeyer, 1)}
	s.Seams = &Seams{
		Park: func(at Seam) {
			s.send(event{Reached: at})
			<-s.resume
		},
		HeldUp: func(until time.Time) { s.send(event{HeldUp: &until}) },
	}
	first := make(chan command, 1)
	go s.listen(ctx, end, json.NewDecoder(in), first)
	ended := func() error {
		if cause := context.Cause(ctx); parent.Err() == nil && cause != io.EOF {
			return cause
		}
		return nil
	}
	var c command
	select {
	case c = <-first:
	case <-ctx.Done():
		return ended()
	}
	if c.Setup == nil {
		return errors.New("the first command is not a setup")
	}
	var with Setup
	err := json.Unmarshal(c.Setup, &with)
	if err != nil {
		err = fmt.Errorf("reading the setup: %w", err)
	} else if c.Words != "" {
		// The words stay mapped until the process ends, because goroutines that run leaves behind
		// may still use them.
		s.Words, err = OpenWords(c.Words)
	}
	if err == nil {
		err = run(ctx, with, s)
	}
	if ctx.Err() != nil {
		return ended()
	}
	return err
}

// listen reads commands until there are no more, and then calls end with the error, which is io.EOF
// at the end of the input. Calls that wait at a seam then continue, so that the process can end.
func (s *Server) listen(
	ctx context.Context, end context.CancelCauseFunc, in *json.Decoder, first chan<- command,
) {
	defer close(s.resume)
	var obey obeyer
	for n := 0; ; n++ {
		var c command
		if err := in.Decode(&c); err != nil {
			if err != io.EOF {
				err = fmt.Errorf("reading a command: %w", err)
			}
			end(err)
			return
		}
		if n == 0 {
			first <- c
			continue
		}
		if obey == nil {
			select {
			case obey = <-s.obeying:
			case <-ctx.Done():
				return
			}
		}
		s.carryOut(ctx, end, c, obey)
	}
}

func (s *Server) carryOut(ctx context.Context, end context.CancelCauseFunc, c command, obey obeyer) {
	switch {
	case c.Arm != nil:
		s.Seams.Set(*c.Arm)
		s.send(event{ID: c.ID})
	case c.Resume:
		post(s.resume, struct{}{})
	default:
		go func() { // an order may take long, and must not delay other commands
			answer, err := obey(ctx, c.Order)
			text, wrong := json.Marshal(answer)
			if err = errors.Join(err, wrong); err != nil {
				end(err)
				return
			}
			s.send(event{ID: c.ID, Answer: text})
		}()
	}
}

// Obey sets the function that carries out each order, in a goroutine. Its result is sent as the
// answer; an error ends the process. Until Obey is called, commands wait.
func (s *Server) Obey(obey obeyer) { s.obeying <- obey }

// Ready tells the parent that the process is ready and, unless addr is "", that it serves HTTP at addr.
func (s *Server) Ready(addr string) { s.send(event{Ready: &addr}) }

// WatchStalls reports stalls of this process that are longer than limit to the parent, until stop is
// called.
func (s *Server) WatchStalls(limit time.Duration) (stop func()) {
	w := WatchStalls(limit, func(d time.Duration) { s.send(event{Stalled: d}) })
	return func() { w.Stop() }
}

// send writes an event. It ignores errors, because if the parent is gone, the commands end, too.
func (s *Server) send(e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Encode(e)
}
