// Package imitation gives miniredis the newer commands that v4_native and increx need, and an
// answer to COMMAND INFO. It imitates what the documents say; it is not Redis, and only a run
// on a real server proves anything about one. TestOnARealServer does that, where there is one.
//
// It follows the pages of SET, DELEX and INCREX at redis.io (Redis 8.4 and 8.8) and of
// DELIFEQ at valkey.io (Valkey 9.0), and for INCREX the tests of go-redis 9.23 against
// Redis 8.8. Of SET it adds IFEQ, of INCREX it has BYINT, LBOUND and UBOUND. Any other option
// of INCREX is refused with an error.
//
// Each command runs as a script of miniredis. So it is one step to all other commands, and
// MULTI queues it. INFO counts the commands of the script too. Numbers are exact to 15 digits,
// as in any script; a longer one is refused.
package imitation

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// Version is the server whose commands are imitated.
type Version int

// The versions. Each refuses the commands that its original lacks.
const (
	Redis88  Version = iota // SET IFEQ, DELEX and INCREX
	Redis84                 // SET IFEQ and DELEX
	Valkey90                // SET IFEQ and DELIFEQ
	Redis70                 // none of them
)

var (
	//go:embed setifeq.lua
	setIfEqual string
	//go:embed delifeq.lua
	deleteIfEqual string
	//go:embed increx.lua
	incrementBounded string
)

// has reports whether a version has a command, or an option written as SET IFEQ.
func (v Version) has(command string) bool {
	switch command {
	case "INCREX":
		return v == Redis88
	case "DELEX":
		return v == Redis88 || v == Redis84
	case "DELIFEQ":
		return v == Valkey90
	}
	return command != "SET IFEQ" || v != Redis70
}

// New returns a miniredis without a listener that imitates a version, and whose clock ticks.
// Its connections are those of Dial.
func New(as Version) (*miniredis.Miniredis, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	conn, err := m.Dial() // starts it
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("starting a server in memory: %w", err)
	}
	Install(m, as)
	return m, conn.Close()
}

// Install makes a started server imitate a version. It takes the hook of m. After Restart it
// must be called again.
func Install(m *miniredis.Miniredis, as Version) {
	s := m.Server() // later it is nil while m closes, and commands may still be running
	s.SetPreHook(func(c *server.Peer, command string, args ...string) (done bool) {
		switch command {
		case "COMMAND":
			if len(args) < 2 || !strings.EqualFold(args[0], "INFO") {
				return false
			}
			c.WriteLen(len(args) - 1)
			for _, name := range args[1:] {
				as.describe(c, s, strings.ToUpper(name))
			}
		case "SET":
			i := conditionOf(args)
			if i < 0 {
				return false
			}
			if !as.has("SET IFEQ") || i+1 == len(args) || slices.ContainsFunc(slices.Concat(args[2:i], args[i+2:]), excluded) {
				c.WriteError("ERR syntax error")
				return true
			}
			run(s, c, setIfEqual, slices.Concat(args[:1], args[i+1:i+2], args[1:i], args[i+2:]))
		case "DELIFEQ":
			switch {
			case !as.has(command):
				return false // it is unknown to miniredis too
			case len(args) != 2:
				c.WriteError("ERR wrong number of arguments for 'delifeq' command")
			default:
				run(s, c, deleteIfEqual, args)
			}
		case "DELEX":
			if as.has(command) {
				return false
			}
			c.WriteError("ERR unknown command 'DELEX'")
		case "INCREX":
			switch {
			case !as.has(command):
				return false
			case len(args) == 0:
				c.WriteError("ERR wrong number of arguments for 'increx' command")
			default:
				as.increx(s, c, args)
			}
		default:
			return false
		}
		return true
	})
}

// conditionOf returns where IFEQ is among the options of SET, or -1. The key and the value
// may have that name, and so may what it is compared with.
func conditionOf(args []string) int {
	if len(args) < 2 {
		return -1
	}
	i := slices.IndexFunc(args[2:], func(arg string) bool { return strings.EqualFold(arg, "IFEQ") })
	if i < 0 {
		return -1
	}
	return i + 2
}

// excluded reports whether an option of SET cannot stand beside IFEQ. GET can in Redis, and is
// not imitated.
func excluded(option string) bool {
	return slices.Contains([]string{"NX", "XX", "IFEQ", "GET"}, strings.ToUpper(option))
}

// increx parses the options of INCREX.
func (v Version) increx(s *server.Server, c *server.Peer, args []string) {
	by, bounds := "1", map[string]string{"LBOUND": "", "UBOUND": ""}
	for options := args[1:]; len(options) > 0; options = options[2:] {
		name := strings.ToUpper(options[0])
		if _, bound := bounds[name]; !bound && name != "BYINT" {
			c.WriteError("ERR the embedded server does not imitate this option of INCREX: " + name)
			return
		}
		if len(options) < 2 {
			c.WriteError("ERR syntax error")
			return
		}
		if _, err := strconv.ParseInt(options[1], 10, 64); err != nil {
			c.WriteError("ERR value is not an integer or out of range")
			return
		}
		if name == "BYINT" {
			by = options[1]
		} else {
			bounds[name] = options[1]
		}
	}
	run(s, c, incrementBounded, []string{args[0], by, bounds["LBOUND"], bounds["UBOUND"]})
}

// run executes a command as a script with one key.
func run(s *server.Server, c *server.Peer, script string, args []string) {
	s.Dispatch(c, append([]string{"EVAL", script, "1"}, args...))
}

// describe writes what COMMAND INFO says of one command: nil if there is none. Its arity, flags
// and keys are not imitated.
func (v Version) describe(c *server.Peer, s *server.Server, name string) {
	known := s.IsRegisteredCommand(name) || name == "INCREX" || name == "DELIFEQ"
	if !known || !v.has(name) {
		c.WriteNull()
		return
	}
	c.WriteLen(6)
	c.WriteBulk(strings.ToLower(name))
	c.WriteInt(-1)
	c.WriteLen(0)
	c.WriteInt(1)
	c.WriteInt(1)
	c.WriteInt(1)
}
