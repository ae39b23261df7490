// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// substituted is the word that replaces $(…). The commands in $(…) are parsed as well.
const substituted = "SUBSTITUTED"

// shell parses the part of the shell language that the documentation uses. It runs nothing and expands no variable.
type shell struct {
	text     string
	at       int
	words    []string
	commands [][]string
	heredocs []string
}

// parseShell returns the simple commands in a text: words without quotes, redirections, assignments and keywords.
// Commands in $(…) come before the command that contains them.
func parseShell(text string) ([][]string, error) {
	s := &shell{text: text}
	for s.at < len(s.text) {
		if err := s.next(); err != nil {
			return nil, err
		}
	}
	s.end()
	if len(s.heredocs) > 0 {
		return nil, fmt.Errorf("the here-document %q does not end", s.heredocs[0])
	}
	return s.commands, nil
}

var (
	hereDocument = regexp.MustCompile(`^<<-?\s*['"]?([A-Za-z_]+)['"]?`)
	redirection  = regexp.MustCompile(`^[0-9]?(>>|>&|&>|>|<)\s*`)
	placeholder  = regexp.MustCompile(`^<[A-Za-z][^<>\n]*>`)
	assignment   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=`)
)

// next reads white space, an operator, a redirection or a word.
func (s *shell) next() error {
	rest := s.text[s.at:]
	switch {
	case strings.HasPrefix(rest, "\\\n"):
		s.at += 2
	case rest[0] == ' ' || rest[0] == '\t':
		s.at++
	case rest[0] == '\n':
		s.end()
		s.at++
		return s.skipHereDocuments()
	case rest[0] == '#':
		length := strings.IndexByte(rest, '\n')
		if length < 0 {
			length = len(rest)
		}
		s.at += length
	case strings.ContainsRune(";|()", rune(rest[0])), rest[0] == '&' && !strings.HasPrefix(rest, "&>"):
		s.end()
		s.at++
	case hereDocument.MatchString(rest):
		found := hereDocument.FindStringSubmatch(rest)
		s.heredocs = append(s.heredocs, found[1])
		s.at += len(found[0])
	case redirection.MatchString(rest) && !placeholder.MatchString(rest):
		s.at += len(redirection.FindString(rest))
		_, err := s.word()
		return err
	default:
		word, err := s.word()
		if err != nil {
			return err
		}
		s.words = append(s.words, word)
	}
	return nil
}

func (s *shell) skipHereDocuments() error {
	for _, mark := range s.heredocs {
		for {
			line, _, more := strings.Cut(s.text[s.at:], "\n")
			s.at = min(s.at+len(line)+1, len(s.text))
			if strings.TrimSpace(line) == mark {
				break
			}
			if !more {
				return fmt.Errorf("the here-document %q does not end", mark)
			}
		}
	}
	s.heredocs = nil
	return nil
}

// word reads one word and removes its quotes.
func (s *shell) word() (string, error) {
	var word strings.Builder
	quoted := false
	for s.at < len(s.text) {
		rest := s.text[s.at:]
		switch {
		case quoted && rest[0] == '"':
			quoted = false
			s.at++
		case strings.HasPrefix(rest, "$("):
			if err := s.substitution(); err != nil {
				return "", err
			}
			word.WriteString(substituted)
		case rest[0] == '\\' && len(rest) > 1:
			if rest[1] != '\n' {
				word.WriteByte(rest[1])
			}
			s.at += 2
		case quoted:
			word.WriteByte(rest[0])
			s.at++
		case rest[0] == '"':
			quoted = true
			s.at++
		case rest[0] == '\'':
			end := strings.IndexByte(rest[1:], '\'')
			if end < 0 {
				return "", fmt.Errorf("a quote does not end: %.40s", rest)
			}
			word.WriteString(rest[1 : end+1])
			s.at += end + 2
		case placeholder.MatchString(rest):
			found := placeholder.FindString(rest)
			word.WriteString(found)
			s.at += len(found)
		case strings.ContainsRune(" \t\n;|&()<>", rune(rest[0])):
			return word.String(), nil
		default:
			word.WriteByte(rest[0])
			s.at++
		}
	}
	if quoted {
		return "", fmt.Errorf("a quote does not end: %.40s", word.String())
	}
	return word.String(), nil
}

// substitution reads $(…) and the commands in it.
func (s *shell) substitution() error {
	depth, start := 0, s.at+2
	for i := start; i < len(s.text); i++ {
		switch s.text[i] {
		case '(':
			depth++
		case ')':
			if depth > 0 {
				depth--
				continue
			}
			inner, err := parseShell(s.text[start:i])
			s.commands = append(s.commands, inner...)
			s.at = i + 1
			return err
		}
	}
	return fmt.Errorf("a substitution does not end: %.40s", s.text[s.at:])
}

// end adds the words as a command, without leading keywords and assignments.
func (s *shell) end() {
	words := s.words
	s.words = nil
	for len(words) > 0 {
		switch {
		case slices.Contains([]string{"do", "then", "else", "until", "while", "if", "!", "{", "}", "export", "time"},
			words[0]),
			assignment.MatchString(words[0]):
			words = words[1:]
			continue
		case slices.Contains([]string{"for", "done", "fi"}, words[0]):
			return
		}
		s.commands = append(s.commands, words)
		return
	}
}

func TestParseShell(t *testing.T) {
	t.Parallel()
	text := `
make demo    # a comment
FOO=bar kubectl get a,b -o 'jsonpath={.x} # no comment' | grep -v "$(kubectl get c "two words")" > out.txt
cat >> file <<EOF
kubectl not a command
EOF
for f in *.kubeconfig; do
  kubectl --kubeconfig "$f" \
    get d 2>/dev/null && helm list
done
kubectl annotate e x-<HelmOp>-<hash>- y={}
`
	want := [][]string{
		{"make", "demo"},
		{"kubectl", "get", "a,b", "-o", "jsonpath={.x} # no comment"},
		{"kubectl", "get", "c", "two words"},
		{"grep", "-v", substituted},
		{"cat"},
		{"kubectl", "--kubeconfig", "$f", "get", "d"},
		{"helm", "list"},
		{"kubectl", "annotate", "e", "x-<HelmOp>-<hash>-", "y={}"},
	}
	got, err := parseShell(text)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	for _, broken := range []string{"echo 'a", `echo "a`, "echo $(date", "cat <<EOF\nx"} {
		if got, err := parseShell(broken); err == nil {
			t.Errorf("no error for %q: %q", broken, got)
		}
	}
}
