// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package redaction

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// encodings are the forms in which a secret may appear.
var encodings = map[string]func(*rand.Rand, string) string{
	"plain":        func(_ *rand.Rand, s string) string { return s },
	"JSON":         func(_ *rand.Rand, s string) string { return asJSON(s) },
	"JSON in JSON": func(_ *rand.Rand, s string) string { return asJSON(asJSON(map[string]string{"a": s})) },
	"YAML": func(_ *rand.Rand, s string) string {
		data, err := yaml.Marshal(map[string]string{"key": s})
		if err != nil {
			panic(err)
		}
		return string(data)
	},
	"Go":         func(_ *rand.Rand, s string) string { return strconv.Quote(s) },
	"Go, ASCII":  func(_ *rand.Rand, s string) string { return strconv.QuoteToASCII(s) },
	"URL":        func(_ *rand.Rand, s string) string { return "https://u:" + url.PathEscape(s) + "@host/" },
	"URL query":  func(_ *rand.Rand, s string) string { return "https://host/?a=" + url.QueryEscape(s) + "&b=1" },
	"base64":     func(_ *rand.Rand, s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
	"URL base64": func(_ *rand.Rand, s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) },
	"base64 of more": func(r *rand.Rand, s string) string {
		return base64.StdEncoding.EncodeToString([]byte(strings.Repeat("u", r.IntN(5)) + s + strings.Repeat("v", r.IntN(5))))
	},
	"base64 in lines": func(r *rand.Rand, s string) string {
		return split(r, base64.StdEncoding.EncodeToString([]byte("auth:"+s)), "\n  ")
	},
	"base64 in JSON in base64": func(_ *rand.Rand, s string) string {
		return base64.StdEncoding.EncodeToString([]byte(asJSON(map[string]string{"password": s})))
	},
	"split":         func(r *rand.Rand, s string) string { return split(r, s, "\n      ") },
	"split, quoted": func(r *rand.Rand, s string) string { return split(r, asJSON(s), "\"\n    \"") },
}

func asJSON(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// split inserts a text between the characters of an ASCII text.
func split(r *rand.Rand, text, between string) string {
	if len(text) < 2 {
		return text
	}
	at := 1 + r.IntN(len(text)-1)
	for at < len(text) && (text[at]&0xc0 == 0x80 || text[at-1] == '\\') {
		at++
	}
	return text[:at] + between + text[at:]
}

const (
	letters = "abcdefghijkmnopqrstuwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
	signs   = letters + "!$%&/()=?+*#-_.:,;<>|@^~ \t\n\"'\\äß€😀"
)

// secret returns a random secret that does not occur by chance.
func secret(r *rand.Rand) string {
	alphabet := []rune(letters)
	if r.IntN(2) == 0 {
		alphabet = []rune(signs)
	}
	out := []rune{'q', 'Z'}
	for range 6 + r.IntN(60) {
		out = append(out, alphabet[r.IntN(len(alphabet))])
	}
	return string(append(out, 'x', '7'))
}

// characters returns the letters and digits of a text in all views.
func characters(text string) []string {
	plain := unitsOf(text)
	return []string{string(bare(plain).bytes()), string(bare(unescape(plain)).bytes()),
		string(bare(unescape(unescape(plain))).bytes()),
		string(bare(unescapeURL(plain)).bytes())}
}

// TestSecretsAreHiddenInAllForms checks that random secrets in random encodings and positions are never in the result.
func TestSecretsAreHiddenInAllForms(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(19, 22))
	for range 40 {
		secrets := make([]string, 1+r.IntN(800))
		for i := range secrets {
			secrets[i] = secret(r)
		}
		set := New(secrets, true)
		for name, encode := range encodings {
			hidden := secrets[r.IntN(len(secrets))]
			encoded := encode(r, hidden)
			text := "install failed: the field " + encoded + " is not what was asked for"
			got := Hide(text, set)
			if !strings.Contains(got, Mark) || !strings.HasPrefix(got, "install failed: the field ") ||
				!strings.HasSuffix(got, " is not what was asked for") {
				t.Errorf("%s of %q: %q", name, hidden, got)
			}
			for _, view := range characters(got) {
				for _, form := range append(characters(hidden), characters(encoded)...) {
					if strings.Contains(view, form) {
						t.Errorf("%s of %q is left in %q", name, hidden, got)
					}
				}
			}
		}
	}
}

// TestPartsOfLongSecretsAreHidden checks a part of a key, because parsers quote parts of their input.
func TestPartsOfLongSecretsAreHidden(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		long := ""
		for range 10 {
			long += secret(r) + "\n"
		}
		plain := string(bare(unitsOf(long)).bytes())
		set := New([]string{long}, true)
		from := r.IntN(len(plain) - longLength)
		part := plain[from:min(len(plain), from+longLength+r.IntN(50))]
		if got := Hide("bad line: "+part+"...", set); got != "bad line: "+Mark+"..." &&
			!strings.HasPrefix(got, "bad line: "+Mark) {
			t.Errorf("%q in %q", part, got)
		}
	}
}

func TestShortSecretsAreHiddenAsWords(t *testing.T) {
	t.Parallel()
	set := New([]string{"a", "42", "x-y", "!"}, true)
	for text, want := range map[string]string{
		"a cat has 42 lives":        Mark + " cat has " + Mark + " lives",
		`value "a": "42"`:           `value "` + Mark + `": "` + Mark + `"`,
		"port 4242 of cat":          "port 4242 of cat",
		"it is x-y, not x-yz":       "it is " + Mark + ", not x-yz",
		`"!" is bad, and so is !!`:  `"` + Mark + `" is bad, and so is !!`,
		"data: YQ== or NDI= or NDI": "data: " + Mark + " or " + Mark + " or " + Mark,
	} {
		if got := Hide(text, set); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := Hide("a cat", New([]string{"a"}, false)); got != "a cat" {
		t.Errorf("got %q", got)
	}
}

// TestSecretsThatOverlapAreHidden checks secrets of one Set that are parts of secrets of another Set, or overlap them.
func TestSecretsThatOverlapAreHidden(t *testing.T) {
	t.Parallel()
	const secret = "postgres://appuser:Xk29fLq8@db/x"
	whole, part := New([]string{secret}, true), New([]string{"appuser"}, false)
	for name, tc := range map[string]struct {
		sets []*Set
		want string
	}{
		"part first": {[]*Set{part, whole}, "dial " + Mark + " is refused"},
		"part last":  {[]*Set{whole, part}, "dial " + Mark + " is refused"},
		"overlap":    {[]*Set{New([]string{"@db/x is"}, false), part, whole}, "dial " + Mark + " refused"},
	} {
		if got := Hide("dial "+secret+" is refused", tc.sets...); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestTooManySecretsHideWholeText(t *testing.T) {
	t.Parallel()
	if got := Hide("anything", New([]string{strings.Repeat("x", maxSecretBytes+1)}, true)); got != Hidden {
		t.Errorf("got %q", got)
	}
	if got := Hide("anything", nil); got != "anything" {
		t.Errorf("got %q", got)
	}
	tooLarge := NewLarge([]string{strings.Repeat("x", maxSecretBytes*largeScale+1)}, true)
	if got := Hide("anything", New([]string{"other"}, true), tooLarge); got != Hidden {
		t.Errorf("got %q", got)
	}
}

// TestSimilarSecretsTakeLittleMemory checks secrets and texts that an author chose so that many samples match at each
// position. It also measures the memory for the index, so it runs alone.
func TestSimilarSecretsTakeLittleMemory(t *testing.T) {
	numbered := func(format string, count int) []string {
		all := make([]string, count)
		for i := range all {
			all[i] = fmt.Sprintf(format, i)
		}
		return all
	}
	long, repeated := "aaaaaaaaaaaaaaaa%08d", strings.Repeat("a", 60_000)
	for name, given := range map[string]struct {
		secrets []string
		text    string
		want    string
	}{
		"one sample":       {numbered(long, 3000), repeated, Hidden},
		"periodic":         {[]string{repeated}, repeated, Hidden},
		"one prefix":       {numbered("aaaaaaaa%d", 45_000), repeated, repeated},
		"long padding":     {numbered(long, 3000), "YWFhYWFhYWFhYWFhYWFh" + strings.Repeat("=", 60_000), Hidden},
		"many words":       {numbered("%x", 4096), strings.Repeat("1 ", 30_000), Hidden},
		"many white texts": {whites(20_000), strings.Repeat(" ", 60_000), Hidden},
		"large forms":      {[]string{strings.Repeat("<", maxSecretBytes)}, "anything", Hidden},
		"many forms":       {numbered("<%07d", 100_000), "anything", Hidden},
		"many short words": {numbered("%x", 200_000), "anything", Hidden},
		"many long":        {numbered("%08d<-a-long-secret-with-forms", 28_000), "anything", Hidden},
	} {
		set := New(given.secrets, true)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if got := Hide(given.text, set); got != given.want {
			t.Errorf("%s: got %.80q", name, got)
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 80<<20 {
			t.Errorf("%s: took %d MiB", name, used>>20)
		}
	}
}

// whites returns secrets of white space.
func whites(count int) []string {
	all := make([]string, count)
	for i := range all {
		all[i] = strings.NewReplacer("0", " ", "1", "\t").Replace(fmt.Sprintf("%024b", i))
	}
	return all
}

// TestPartOfManySimilarSecretsIsHidden checks that similar secrets of an ordinary size do not hide the whole text.
func TestPartOfManySimilarSecretsIsHidden(t *testing.T) {
	t.Parallel()
	secrets := make([]string, 300)
	for i := range secrets {
		secrets[i] = fmt.Sprintf("https://registry.example.com/v2/%08d", i)
	}
	text := "install failed: "
	for _, secret := range secrets {
		text += secret + " is bad, "
	}
	got := Hide(text, New(secrets, true))
	if want := "install failed: " + strings.Repeat(Mark+" is bad, ", len(secrets)); got != want {
		t.Errorf("got %.300q", got)
	}
	long := secret(rand.New(rand.NewPCG(3, 4)))
	for len(long) < maxText/2 {
		long += secret(rand.New(rand.NewPCG(5, uint64(len(long)))))
	}
	if got := Hide("bad value: "+long+".", New([]string{long}, true)); got != "bad value: "+Mark+"." {
		t.Errorf("got %.300q", got)
	}
}

func FuzzHide(f *testing.F) {
	f.Add("geheim123", "before ", " after")
	f.Add("\\u0041\\", "\\", "\\")
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		if len(secret) < minLength || strings.Contains(Mark, secret) || len(before)+len(secret) > maxText {
			t.Skip()
		}
		if got := Hide(before+secret+after, New([]string{secret}, true)); strings.Count(got,
			secret) > strings.Count(fmt.Sprint(before, Mark, after), secret) {
			t.Errorf("%q is left in %q", secret, got)
		}
	})
}

// TestLargeIndexIsBuiltOnce hides many texts with the same large Set. The test measures memory and stops the collection
// of garbage, so it runs alone.
func TestLargeIndexIsBuiltOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	secrets := make([]string, 4000)
	for i := range secrets {
		secrets[i] = secret(r)
	}
	set := New(secrets, true)
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	allocated := func(times int) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range times {
			Hide("nothing of it", set)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	first := allocated(1)
	if rest := allocated(20); rest > first {
		t.Errorf("20 texts take %d bytes, and the first one took %d", rest, first)
	}
}

// TestLargeIndexesAreNotKept checks the memory that Sets of many secrets keep after a search. It measures memory, so it
// runs alone.
func TestLargeIndexesAreNotKept(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	secrets := make([]string, 4000)
	for i := range secrets {
		secrets[i] = secret(r)
	}
	used := func() int64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	before := used()
	sets := make([]*Set, 5)
	for i := range sets {
		sets[i] = New(secrets, true)
		if got := Hide("the password "+secrets[i]+" is bad", sets[i]); got != "the password "+Mark+" is bad" {
			t.Errorf("got %q", got)
		}
	}
	if kept := used() - before; kept > 1<<20 {
		t.Errorf("%d MiB are kept", kept>>20)
	}
	runtime.KeepAlive(sets)
}
