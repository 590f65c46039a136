package anomalies

import (
	"oversell/internal/lab"
	"oversell/internal/lab/wire"
)

// release matches the command by which a lock is given back.
func release(cmd wire.Command) bool {
	return cmd.Is("DEL", "UNLINK") || cmd.Script()
}

// named matches the commands with these names.
func named(names ...string) lab.Match {
	return func(cmd wire.Command) bool { return cmd.Is(names...) }
}

// on matches the commands with these names that have key among their arguments.
func on(key string, names ...string) lab.Match {
	return func(cmd wire.Command) bool { return cmd.Is(names...) && cmd.Mentions(key) }
}

// fencedWrite matches the script that writes the stock at key with a fencing
// token: unlike the one that reads it, it brings a value as well.
func fencedWrite(key string) lab.Match {
	return func(cmd wire.Command) bool {
		return cmd.Script() && cmd.Mentions(key) && len(cmd.Args) == 8 // EVALSHA sha 2 stock fence of token left
	}
}

// either matches what at least one of the given matches does.
func either(matches ...lab.Match) lab.Match {
	return func(cmd wire.Command) bool {
		for _, match := range matches {
			if match(cmd) {
				return true
			}
		}
		return false
	}
}
