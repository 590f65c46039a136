package wire

import (
	"errors"
	"io"
	"net"
	"time"
)

// Pipe is net.Pipe, but that an end takes a deadline also when the other end is closed, as a
// connection over a network does. Else a client that sets one before it reads would tell another
// error than one that is reading already, and which it is would be left to chance.
func Pipe() (net.Conn, net.Conn) {
	one, other := net.Pipe()
	return end{one}, end{other}
}

type end struct{ net.Conn }

func (e end) SetDeadline(t time.Time) error      { return unlessClosed(e.Conn.SetDeadline(t)) }
func (e end) SetReadDeadline(t time.Time) error  { return unlessClosed(e.Conn.SetReadDeadline(t)) }
func (e end) SetWriteDeadline(t time.Time) error { return unlessClosed(e.Conn.SetWriteDeadline(t)) }

// unlessClosed leaves it to the read or write that follows to find that an end is closed.
func unlessClosed(err error) error {
	if errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}
