package fault

import (
	"bufio"
	"context"
	"io"
	"net"
	"testing"
)

// The relay passes on messages that a server sends without a command, as for client-side caching, before
// the reply to the next command. The tables of the lab test everything else that is relayed.
func TestRelayPassesPushes(t *testing.T) {
	client, theirs := net.Pipe()
	ours, server := net.Pipe()
	over := make(chan struct{})
	go func() {
		defer close(over)
		RelayRedis(context.Background(), theirs, ours,
			func(_ context.Context, _ Command, send func() (Value, error)) (Value, error) { return send() })
	}()
	t.Cleanup(func() {
		client.Close()
		<-over
		server.Close()
	})
	go func() {
		_, _ = io.WriteString(server, ">1\r\n+news\r\n")
		if _, err := readCommand(bufio.NewReader(server)); err == nil {
			_, _ = io.WriteString(server, "+done\r\n")
		}
	}()
	replies := bufio.NewReader(client)
	expect := func(want string) {
		t.Helper()
		if v, err := readValue(replies); err != nil || v.String() != want {
			t.Errorf("got %q, %v; want %q", v.String(), err, want)
		}
	}
	expect("[news]")
	if _, err := client.Write(NewCommand("GET", "a").Raw); err != nil {
		t.Fatal(err)
	}
	expect("done")
}
