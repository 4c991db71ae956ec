package wire

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func mustParse(t testing.TB, text string) Pattern {
	t.Helper()
	p, err := ParsePattern(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The partitions equal the partitions computed by another program:
// testdata/partitions.py.
func TestPartitionsOfPatterns(t *testing.T) {
	text, err := os.ReadFile("testdata/partitions.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Pattern, Subject, Key string
		Partition             map[string]int
	}
	if err := json.Unmarshal(text, &cases); err != nil || len(cases) < 12 {
		t.Fatal(len(cases), err)
	}
	for _, c := range cases {
		p := mustParse(t, c.Pattern)
		if key, ok := p.Key(c.Subject); key != c.Key || !ok || p.Subject(c.Key) != c.Subject || p.CheckKey(c.Key) != nil {
			t.Errorf("%s of %s: key %q, %v, and back %s, %v", c.Subject, c.Pattern, key, ok, p.Subject(c.Key), p.CheckKey(c.Key))
		}
		for n, want := range c.Partition {
			if n, _ := strconv.Atoi(n); p.PartitionOf(c.Key, n) != want {
				t.Errorf("%s of %s: partition %d of %d, want %d", c.Subject, c.Pattern, p.PartitionOf(c.Key, n), n, want)
			}
		}
	}
}

// Server data of jobs of programs with one trailing * stays unchanged.
func TestSinglePatternStays(t *testing.T) {
	p := mustParse(t, DefaultInputSubject)
	if d := p.Destination("eusn", 64); d != "eusn.in.{{partition(64,1)}}.{{wildcard(1)}}" {
		t.Error(d)
	}
	if f := p.InputFilter("eusn", 3); f != "eusn.in.3.*" || p.Filter() != "sensors.*" || p.MaxKey() != 0 {
		t.Error(f, p.Filter(), p.MaxKey())
	}
	if k := p.IdleKey(5, 64); k != IdleKey(5, 64) || PartitionOf(k, 64) != 5 || strings.Contains(k, ".") {
		t.Error(k)
	}
}

func TestPatternOnTheServer(t *testing.T) {
	for text, want := range map[string][3]string{
		"plant.*.line.*.sensor.*":    {"plant.*.line.*.sensor.*", "j.in.{{partition(8,1,2,3)}}.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}", "j.in.7.>"},
		"plant.{site}.line.{l}.raw":  {"plant.*.line.*.raw", "j.in.{{partition(8,1,2)}}.{{wildcard(1)}}.{{wildcard(2)}}", "j.in.7.>"},
		"plant.{sensor}":             {"plant.*", "j.in.{{partition(8,1)}}.{{wildcard(1)}}", "j.in.7.*"},
		"plant.*.temperature":        {"plant.*.temperature", "j.in.{{partition(8,1)}}.{{wildcard(1)}}", "j.in.7.>"},
		"plant.>":                    {"plant.>", "j.in.{{partition(8)}}.>", "j.in.7.>"},
		"plant.{site}.line.*.more.>": {"plant.*.line.*.more.>", "j.in.{{partition(8)}}.{{wildcard(1)}}.{{wildcard(2)}}.>", "j.in.7.>"},
	} {
		p := mustParse(t, text)
		if got := [3]string{p.Filter(), p.Destination("j", 8), p.InputFilter("j", 7)}; got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	p := mustParse(t, "plant.{site}.line.*.sensor.{s}")
	if !slices.Equal(p.Names(), []string{"site", "", "s"}) || !slices.Equal(p.Values("A.3.7"), []string{"A", "3", "7"}) || p.Values("A.3") != nil {
		t.Error(p.Names(), p.Values("A.3.7"), p.Values("A.3"))
	}
}

func TestWrongPatterns(t *testing.T) {
	for text, says := range map[string]string{
		"":                              "empty token",
		"plant":                         "want a wildcard",
		"plant.a.b":                     "want a wildcard",
		"*":                             "first token is a wildcard",
		">":                             "first token is a wildcard",
		"*.line.*":                      "first token is a wildcard",
		"{site}.line.*":                 "first token is a wildcard",
		"plant.>.sensor":                "must be the last",
		"plant.>.*":                     "must be the last",
		"plant..*":                      "empty token",
		"plant.*.":                      "empty token",
		".plant.*":                      "empty token",
		"plant.a*.b":                    "a wildcard is a whole token",
		"plant.**":                      "a wildcard is a whole token",
		"plant.*>":                      "a wildcard is a whole token",
		"plant.{site.*":                 "a wildcard is a whole token",
		"plant.x{site}":                 "a wildcard is a whole token",
		"plant.{}":                      "letters, digits and _",
		"plant.{my site}":               "a blank stands between two subjects",
		"plant.{3}":                     "letters, digits and _",
		"plant.{s>}":                    "letters, digits and _",
		"plant.{site}.{site}":           `two wildcards have the name "site"`,
		"plant\thall.*":                 "blank",
		"plant.> plant.*.x":             "overlaps with plant.>",
		"p.*.x.> a.* p.1.*.y":           "overlaps with p.*.x.>",
		"p.a p.a":                       "overlaps with p.a",
		"a.* $JS.>":                     "belong to the server",
		"a.* *":                         "first token is a wildcard",
		"a.* b..c":                      "empty token",
		"a.* eusn-idle-7.*":             "are the stage's own",
		strings.Repeat("a ", 65):        "65 subjects, want at most 64",
		"plant.\x00.*":                  "control character",
		"$JS.*":                         "belong to the server",
		"a" + strings.Repeat(".*", 17):  "17 wildcards, want at most 16",
		strings.Repeat("x", 300) + ".*": "302 bytes, want at most 256",
	} {
		if _, err := ParsePattern(text); err == nil || !strings.Contains(err.Error(), says) || !strings.HasPrefix(err.Error(), "input subject ") {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
	for _, c := range []struct{ pattern, key, says string }{
		{"plant.*.line.*", "A", "1 tokens between dots, want 2"},
		{"plant.*.line.*", "A.3.7", "3 tokens between dots, want 2"},
		{"plant.*.line.*", "A.", "must not be empty"},
		{"plant.*.line.*", "A. 3", "blanks"},
		{"plant.*.line.*", "A.*", "* or >"},
		{"plant.*.>", "A", "want 2 or more"},
		{"plant.>", "", "must not be empty"},
		{"plant.>", strings.Repeat("ab.", 90) + "x", "271 bytes, want at most 256"},
		{"sensors.*", "a.b", "cannot be a subject token"},
		{"press.*.v mill.>", "press.3", "whole subjects for keys, and none of these takes it"},
		{"press.*.v mill.>", "press.3.v.w", "none of these takes it"},
		{"press.*.v mill.>", "mill", "none of these takes it"},
		{"press.*.v mill.>", "mill.*", "* or >"},
		{"press.*.v mill.>", "eusn-idle-0.eusn-idle-0", "none of these takes it"},
		{"press.*.v mill.>", "mill." + strings.Repeat("ab.", 90) + "x", "276 bytes, want at most 256"},
	} {
		if err := mustParse(t, c.pattern).CheckKey(c.key); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("key %q of %s: %v, want %q", c.key, c.pattern, err, c.says)
		}
	}
	for subject, job := range map[string]string{"plant.>": "plant", "plant.in.*": "plant", "eusn.*.*.x": "eusn", "a.* plant.in.3": "plant"} {
		if !mustParse(t, subject).Takes(job) {
			t.Errorf("%s takes nothing of job %s", subject, job)
		}
	}
	if mustParse(t, "eusn.*").Takes("eusn") || mustParse(t, "plant.>").Takes("eusn") {
		t.Error("a job's own subjects have three tokens, and begin with its name")
	}
}

// Subjects and keys of a pattern correspond one to one.
func TestKeysAreOneToOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	letters := []string{"a", "b", "ab", "-", "7", "in", "0"}
	for _, text := range []string{"sensors.*", "p.*.*", "p.*.l.*", "p.*.l.*.t", "p.>", "p.*.>", "p.*.l.>"} {
		p := mustParse(t, text)
		of := map[string]string{}
		for range 3000 {
			var parts []string
			for tok := range strings.SplitSeq(p.Filter(), ".") {
				more := 1
				switch tok {
				case ">":
					more = 1 + rng.IntN(3)
					fallthrough
				case "*":
					for range more {
						parts = append(parts, letters[rng.IntN(len(letters))])
					}
				default:
					parts = append(parts, tok)
				}
			}
			subject := strings.Join(parts, ".")
			key, ok := p.Key(subject)
			if other, seen := of[key]; !ok || seen && other != subject || p.Subject(key) != subject || p.CheckKey(key) != nil {
				t.Fatalf("%s of %s: key %q, %v, also of %q; back %q; %v", subject, text, key, ok, other, p.Subject(key), p.CheckKey(key))
			}
			of[key] = subject
			if KeyOf(InputSubject("job", 3, key)) != key {
				t.Fatal(key)
			}
		}
	}
	if _, ok := mustParse(t, "p.*.l").Key("p.a.l.b"); ok {
		t.Error("a longer subject is taken")
	}
	if _, ok := mustParse(t, "p.*.>").Key("p.a"); ok {
		t.Error("a shorter subject is taken")
	}
}

// Every partition has a key for end events, whatever the number of partitions.
func TestIdleKeys(t *testing.T) {
	for _, text := range []string{"sensors.*", "p.*.*", "p.*.l.*.s.*", "p.>", "p.*.>", "p.*.l", "p.*.l q.>"} {
		p := mustParse(t, text)
		for _, n := range []int{1, 2, 8, 16, 64, 97, 256} {
			for part := range n {
				if key := p.IdleKey(part, n); !IsIdleKey(key) || p.PartitionOf(key, n) != part || p.CheckKey(key) != nil {
					t.Fatalf("%s, partition %d of %d: %q: %v", text, part, n, key, p.CheckKey(key))
				}
			}
		}
	}
	for _, key := range []string{"", "m1", "A.eusn-idle-0", "eusn-idle-0.3", "eusn-idle-0..eusn-idle-0"} {
		if IsIdleKey(key) {
			t.Errorf("an end event may have the key %q", key)
		}
	}
}

// Several subjects are one input: the server's result for a message does not depend on
// the other subjects, or their order.
func TestSeveralSubjects(t *testing.T) {
	p := mustParse(t, "press.{press}.vibration  mill.{line}.> hall")
	if p.Filter() != "hall mill.*.> press.*.vibration" || mustParse(t, "hall press.*.vibration mill.*.>").Filter() != p.Filter() {
		t.Error(p.Filter())
	}
	if d, f := p.Destination("j", 8), p.InputFilter("j", 7); d != "j.in.{{partition(8)}}.>" || f != "j.in.7.>" || p.Source() != ">" || p.MaxKey() != MaxKey {
		t.Error(d, f, p.Source(), p.MaxKey())
	}
	if s := p.Subjects(); !slices.Equal(s[:3], p.Filters()) || len(s) != 4 || !strings.HasPrefix(s[3], IdlePrefix) || !strings.HasSuffix(s[3], ".*") {
		t.Error(s)
	}
	for subject, takes := range map[string]bool{"press.3.vibration": true, "mill.A.x.y": true, "hall": true, "press.3": false, "hall.3": false, "mill.A": false} {
		key, ok := p.Key(subject)
		if ok != takes || (p.CheckKey(subject) == nil) != takes || takes && (key != subject || p.Subject(key) != subject) {
			t.Errorf("%s: key %q, %v; %v", subject, key, ok, p.CheckKey(subject))
		}
	}
	if !slices.Equal(p.Names(), []string{"line", "press"}) || !slices.Equal(p.Values("mill.A.x"), []string{"A", ""}) || !slices.Equal(p.Values("press.3.vibration"), []string{"", "3"}) || p.Values("press.3") != nil {
		t.Error(p.Names(), p.Values("mill.A.x"), p.Values("press.3.vibration"), p.Values("press.3"))
	}
	if one := mustParse(t, "press.*.x"); !slices.Equal(one.Subjects(), []string{"press.*.x"}) || one.Source() != "press.*.x" {
		t.Error(one.Subjects(), one.Source())
	}
}

// ParsePattern accepts only patterns whose keys can be built and read back.
func FuzzPattern(f *testing.F) {
	for _, s := range []string{"sensors.*", "plant.{a}.l.*.>", "p.>", "{a}.*", "p.{a", "\xff.*", "p.* q.{a}.>", "p  q"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePattern(text)
		if err != nil {
			return
		}
		again, err := ParsePattern(p.Filter())
		if err != nil || again.Destination("j", 2) != p.Destination("j", 2) {
			t.Fatalf("%q: %v", text, err)
		}
		key := p.IdleKey(1, 2)
		if back, ok := p.Key(p.Subject(key)); back != key || !ok {
			t.Fatalf("%q: key %q became %q", text, key, back)
		}
	})
}
