package fleet_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"oversell/internal/fleet"
)

// role is the name of the environment variable that makes this test binary run as a child of a test. A
// child prints a line when it is ready.
const role = "OVERSELL_TEST_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(role) {
	case "echo": // answers each line; after SIGTERM it exits with code 3
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM)
		go echo()
		<-asked
		os.Exit(3)
	case "stubborn": // ignores SIGTERM
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		time.Sleep(time.Minute)
	case "parent": // starts a child and prints the child's process id
		p, err := fleet.Start(command("stubborn"))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(p.Pid())
		time.Sleep(time.Minute)
	case "talkative": // a member that sends many events before it exits, the last of them the longest stall
		fmt.Println(`{"ready":""}`)
		_, _ = io.Copy(io.Discard, os.Stdin)
		fmt.Print(strings.Repeat(`{"stalled":1}`+"\n", 4000) + `{"stalled":2}` + "\n")
	default:
		goleak.VerifyTestMain(m)
	}
}

func echo() {
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fmt.Println(lines.Text())
	}
}

func command(as string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), role+"="+as)
	return cmd
}

// talk is the connection from a test to its child.
type talk struct {
	io.Writer             // to the child
	lines     chan string // from the child; closed at the end of its output
}

// start starts a child that is killed at the end of the test, and waits until the child is ready.
func start(t *testing.T, as string) (*fleet.Process, talk) {
	t.Helper()
	cmd := command(as)
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	p, err := fleet.Start(cmd)
	if err := errors.Join(inErr, outErr, err); err != nil {
		t.Fatal(err)
	}
	said := talk{in, make(chan string, 10)}
	go func() {
		defer close(said.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			said.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		p.Kill()
		for range said.lines { // read to the end, so that the sending goroutine ends
		}
	})
	if as == "echo" || as == "stubborn" {
		if first := said.next(t); first != "ready" {
			t.Fatalf("the child says %q", first)
		}
	}
	return p, said
}

// next returns the next line from the child.
func (s talk) next(t *testing.T) string {
	t.Helper()
	select {
	case line, ok := <-s.lines:
		if !ok {
			t.Fatal("the child has ended")
		}
		return line
	case <-time.After(10 * time.Second):
		t.Fatal("the child says nothing")
	}
	return ""
}
