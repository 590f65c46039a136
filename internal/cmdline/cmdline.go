// Package cmdline parses the flags of the programs, and writes their help: -h shows the flags
// that most people use, and -h all shows every flag. It also tells whether their output is a terminal.
package cmdline

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"oversell/internal/atomicfile"
	"oversell/internal/naming"
)

// Parse parses the arguments, and returns the names of the flags among them. If prefix is not "", environment
// variables that begin with it override the defaults of the other flags. It returns flag.ErrHelp or a one-line error.
func Parse(fs *flag.FlagSet, args []string, prefix string) (line []string, err error) {
	fs.SetOutput(io.Discard) // an error is reported once, by the caller
	fs.Usage = func() {}
	if err := fs.Parse(args); err != nil {
		return nil, explain(fs, err)
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("%q is not a flag (-h all shows them)", fs.Arg(0))
	}
	fs.Visit(func(f *flag.Flag) { line = append(line, f.Name) })
	if prefix == "" {
		return line, nil
	}
	fs.VisitAll(func(f *flag.Flag) {
		variable := prefix + "_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value := os.Getenv(variable)
		if err != nil || value == "" || slices.Contains(line, f.Name) {
			return
		}
		if wrong := fs.Set(f.Name, value); wrong != nil {
			// The text is that of Parse of package flag.
			wrong = fmt.Errorf("invalid value %q for flag -%s: %w", value, f.Name, wrong)
			err = fmt.Errorf("%s in the environment: %w", variable, explain(fs, wrong))
		}
	})
	return line, err
}

var badValue = regexp.MustCompile(`^invalid value "(.*)" for flag -(\S+): parse error$`)

// explain returns an error of package flag with advice on what to write instead.
func explain(fs *flag.FlagSet, err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return flag.ErrHelp
	}
	text := err.Error()
	if name, found := strings.CutPrefix(text, "flag provided but not defined: -"); found {
		if near := naming.Near(name, names(fs)); len(near) > 0 {
			return fmt.Errorf("there is no flag -%s; did you mean -%s?", name, strings.Join(near, " or -"))
		}
		return fmt.Errorf("there is no flag -%s (-h all shows all)", name)
	}
	if m := badValue.FindStringSubmatch(text); m != nil {
		switch valueOf(fs, m[2]).(type) {
		case time.Duration:
			if _, err := strconv.ParseFloat(m[1], 64); err == nil {
				return fmt.Errorf("-%s %s has no unit: write %ss for seconds", m[2], m[1], m[1])
			}
			return fmt.Errorf("-%s %q is not a time, such as 500ms, 5s or 1m", m[2], m[1])
		case uint64:
			return fmt.Errorf("-%s %q is not a whole number, 0 or more", m[2], m[1])
		case int, int64:
			return fmt.Errorf("-%s %q is not a whole number", m[2], m[1])
		}
	}
	return fmt.Errorf("%s (-h all shows what is allowed)", text)
}

// valueOf returns the value of a flag, or nil if it is not of a type of package flag.
func valueOf(fs *flag.FlagSet, name string) any {
	if f := fs.Lookup(name); f != nil {
		if value, ok := f.Value.(flag.Getter); ok {
			return value.Get()
		}
	}
	return nil
}

// names returns the names of all flags, sorted.
func names(fs *flag.FlagSet) []string {
	var list []string
	fs.VisitAll(func(f *flag.Flag) { list = append(list, f.Name) })
	return list
}

// Given reports whether a flag was set, by an argument or the environment.
func Given(fs *flag.FlagSet, name string) (found bool) {
	fs.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// Only returns an error if a flag is not among those that a part of the program takes.
func Only(given []string, part string, taken []string) error {
	for _, name := range given {
		if !slices.Contains(taken, name) {
			return fmt.Errorf("-%s is not a flag of %s, which takes -%s", name, part, strings.Join(taken, ", -"))
		}
	}
	return nil
}

// NotEmpty returns an error if one of the flags was set to a list without names.
func NotEmpty(fs *flag.FlagSet, names ...string) error {
	for _, name := range names {
		if list := fs.Lookup(name).Value.String(); Given(fs, name) && len(naming.Split(list)) == 0 {
			return fmt.Errorf("-%s %q names nothing (-h all shows what is allowed)", name, list)
		}
	}
	return nil
}

// Apart returns an error if two of the flags name the same file: one of them would replace what the other wrote.
// "" and - are no files.
func Apart(fs *flag.FlagSet, names ...string) error {
	for i, b := range names {
		for _, a := range names[:i] {
			path, other := fs.Lookup(a).Value.String(), fs.Lookup(b).Value.String()
			if path != "" && path != "-" && atomicfile.Same(path, other) {
				return fmt.Errorf("-%s and -%s are the same file, %s: name two", a, b, path)
			}
		}
	}
	return nil
}

// Help holds the texts that -h shows.
type Help struct {
	Program string  // the command that runs it
	Usage   string  // what the program does, and five examples
	Usual   string  // names of the flags that most people use
	End     string  // the text after the flags
	More    string  // the text that -h all adds to Usage
	Groups  []Group // all flags
}

// Group is a group of flags with a title. Flags contains their names, separated by spaces.
type Group struct{ Title, Flags string }

// Write writes the help that the arguments ask for: all flags for -h all, otherwise the usual
// flags.
func (h Help) Write(w io.Writer, fs *flag.FlagSet, args []string) {
	var b strings.Builder
	defer func() { io.WriteString(w, b.String()) }()
	b.WriteString(h.Usage)
	if !all(args) {
		b.WriteString("\nFlags:\n")
		for _, name := range strings.Fields(h.Usual) {
			describe(&b, fs.Lookup(name), brief)
		}
		fmt.Fprintf(&b, "\n%s\n%s -h all shows all %d flags, and more examples.\n", h.End, h.Program, len(names(fs)))
		return
	}
	b.WriteString(h.More)
	for _, group := range h.Groups {
		fmt.Fprintf(&b, "\n%s:\n", group.Title)
		for _, name := range strings.Fields(group.Flags) {
			describe(&b, fs.Lookup(name), whole)
		}
	}
	fmt.Fprintf(&b, "\n%s\n", h.End)
}

// all reports whether the arguments contain -h all.
func all(args []string) bool {
	for i, arg := range args[:max(len(args)-1, 0)] {
		if slices.Contains([]string{"h", "help"}, strings.TrimLeft(arg, "-")) && args[i+1] == "all" {
			return true
		}
	}
	return false
}

func whole(text string) string { return text }

// brief returns the description up to its first semicolon.
func brief(text string) string {
	text, _, _ = strings.Cut(text, ";")
	return text
}

const (
	left  = 27  // width of the column of names
	width = 100 // maximum width of a line
)

// describe writes a flag, its shortened usage, and its default.
func describe(b *strings.Builder, f *flag.Flag, shorten func(string) string) {
	value, text := flag.UnquoteUsage(f)
	text = shorten(text)
	secret := strings.ContainsAny(f.DefValue, "@") || strings.Contains(f.DefValue, "://") // may be from the environment
	if !secret && !slices.Contains([]string{"", "0", "0s", "false"}, f.DefValue) {
		text += " (default " + f.DefValue + ")"
	}
	line := fmt.Sprintf("  %-*s", left-2, "-"+f.Name+" "+value)
	for word := range strings.FieldsSeq(text) {
		if len(line) > left && len(line)+1+len(word) > width {
			b.WriteString(line + "\n")
			line = strings.Repeat(" ", left)
		}
		line += " " + word
	}
	b.WriteString(line + "\n")
}

// maxLines is the maximum number of lines of -h.
const maxLines = 33

// Check returns an error unless -h fits on a screen, -h all has each flag in one group, some part of the
// program takes each flag, and the usage of each flag names its value in capitals. The tests of the
// programs call it. The lists in taken are the flags that each part takes.
func (h Help) Check(fs *flag.FlagSet, taken ...[]string) error {
	var short strings.Builder
	h.Write(&short, fs, []string{"-h"})
	if n := strings.Count(short.String(), "\n"); n > maxLines {
		return fmt.Errorf("-h has %d lines, and may have %d", n, maxLines)
	}
	var grouped []string
	for _, g := range h.Groups {
		grouped = append(grouped, strings.Fields(g.Flags)...)
	}
	slices.Sort(grouped)
	all := names(fs)
	if !slices.Equal(grouped, all) {
		return fmt.Errorf("-h all shows %v, and the flags are %v", grouped, all)
	}
	of := slices.Concat(taken...)
	slices.Sort(of)
	if of = slices.Compact(of); len(taken) > 0 && !slices.Equal(of, all) {
		return fmt.Errorf("the parts take %v, and the flags are %v", of, all)
	}
	var err error
	fs.VisitAll(func(f *flag.Flag) {
		if value, _ := flag.UnquoteUsage(f); value != strings.ToUpper(value) {
			err = fmt.Errorf("-%s takes a %q", f.Name, value)
		}
	})
	return err
}

// Terminal reports whether w is a terminal.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Coloured reports whether to colour the output to w: see https://no-color.org.
func Coloured(w io.Writer) bool { return Terminal(w) && os.Getenv("NO_COLOR") == "" }
