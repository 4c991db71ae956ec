package live

import (
	"strings"
	"testing"
)

func TestSelection(t *testing.T) {
	const subject = "plant.{site}.line.{line}.sensor.*"
	for _, c := range []struct {
		stream string
		where  map[string]string
		id     string
		takes  bool
	}{
		{"", nil, "anything", true},
		{"A.3.7", nil, "A.3.7", true},
		{"A.3.7", nil, "A.3.70", false},
		{"A.*.7", nil, "A.3.7", true},
		{"A.*.7", nil, "A.3.8", false},
		{"A.*", nil, "A.3.7", false},
		{"A.>", nil, "A.3.7", true},
		{"A.3.7.>", nil, "A.3.7", false},
		{"*.*.7", nil, "B.1.7", true},
		{"odd*id", nil, "odd*id", true},
		{"", map[string]string{"site": "A"}, "A.3.7", true},
		{"", map[string]string{"site": "A", "line": "4"}, "A.3.7", false},
		{"*.*.7", map[string]string{"site": "A"}, "A.3.8", false},
		{"", map[string]string{"site": "A"}, "A", false}, // a stream id in a message
	} {
		s, err := selectionOf(c.stream, c.where, subject)
		if err != nil {
			t.Fatal(err)
		}
		of, takes := s.takes(c.id)
		if takes != c.takes || takes && c.where != nil && (of["site"] != "A" || of["line"] == "" || len(of) != 2) {
			t.Errorf("--stream %q --where %v takes %q: %v, %v", c.stream, c.where, c.id, takes, of)
		}
	}
	for subject, says := range map[string]string{
		"plant.{site}.>": "has the names site", "plant.*": "has no names: write {shop} in place of its *", "plant": "want a wildcard",
	} {
		if _, err := selectionOf("", map[string]string{"shop": "A"}, subject); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", subject, err)
		}
	}
	s, err := selectionOf("A.>", map[string]string{"site": "A", "line": "3"}, subject)
	if want := ` of stream "A.>" where line=3, site=A`; err != nil || s.String() != want {
		t.Errorf("%q, %v", s.String(), err)
	}
}
