package archive

import (
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/archivetest"
)

func labelsIn(text string) (*LabelFile, error) { return readLabels("l", strings.NewReader(text)) }

func TestLabelFile(t *testing.T) {
	for name, text := range map[string]string{
		"CSV":  "label,stream,to,from,who\nup,a,20,10,anna\ndown,a,1970-01-01T00:00:00.00000003Z,20,\nup,a,12,11,\n\nup,b,2,-5,x\n",
		"BOM":  "\ufefflabel,stream,to,from\r\nup,a,20,10\r\ndown,a,30,20\r\nup,b,2,-5\r\n",
		"JSON": `{"stream":"a","from":"1970-01-01T00:00:00.00000001Z","to":"1970-01-01T00:00:00.00000002Z","label":"up","who":"x","when":"2026-01-31T12:00:00Z"}` + "\n\n" + `{"stream":"a","from":"20","to":"30","label":"down"}` + "\n" + `{"stream":"b","from":"-5","to":"2","label":"up"}`,
	} {
		l, err := labelsIn(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, c := range []struct {
			stream string
			at     int64
			want   string
		}{{"a", 9, ""}, {"a", 10, "up"}, {"a", 19, "up"}, {"a", 20, "down"}, {"a", 29, "down"}, {"a", 30, ""}, {"b", -5, "up"}, {"b", 2, ""}, {"c", 1, ""}, {"b", NoTime, ""}} {
			if got := l.at(c.stream, c.at); got != c.want {
				t.Errorf("%s: stream %s at %d is %q, want %q", name, c.stream, c.at, got, c.want)
			}
		}
	}
}

// Each error names its line.
func TestWrongLabelFiles(t *testing.T) {
	const head = "stream,from,to,seq,row,label\n"
	for text, want := range map[string]string{
		"":                                          "l is empty",
		"stream,from,to\n":                          `l:1: column "label" is missing`,
		"stream,label,label\n":                      `l:1: column "label" is there twice`,
		head + "a,1,2,,,x\na,1,2,x\n":               "l:3: 4 fields, the header line has 6",
		head + ",1,2,,,x\n":                         "l:2: stream is empty",
		head + "a,1,2,,,\n":                         "l:2: label is empty",
		head + "a,1,2,,,\x1b\n":                     "l:2: label",
		head + "a,1,,,,x\n":                         `l:2: to "", want a time`,
		head + "a,1700000000,1700000060,,,x\n":      "l:2: from is 1700000000, which looks like s since 1970 (2023-11-14T22:13:20Z): want ns since 1970",
		head + "a,0,1700000060000,,,x\n":            "l:2: to is 1700000060000, which looks like ms since 1970",
		head + "a,noon,2,,,x\n":                     `l:2: from "noon", want a time`,
		head + "a,0001-01-01T00:00:00Z,2,,,x\n":     "beyond 64 bits",
		head + "a,2,2,,,x\n":                        "l:2: from 2 is not before to 2",
		head + "a,1,2,1,,x\n":                       "l:2: want from and to, or seq and row",
		head + "a,,,,,x\n":                          "l:2: want from and to, or seq and row",
		head + "a,,,0,0,x\n":                        `l:2: seq "0", want a number from 1`,
		head + "a,,,1,-1,x\n":                       `l:2: row "-1", want a number from 0`,
		head + "a,,,1,1,x\na,,,1,1,y\n":             `l:3: stream "a", seq 1, row 1 is "y", but "x" in line 2`,
		head + "a,10,20,,,x\nb,1,2,,,x\na,5,11,,,y": `l:4: stream "a" is "y", but "x" in line 2`,
		head + "a,10,20,,,x\n\"a,10":                "l: parse error on line 3",
		"{\"stream\":1}":                            "l:1: want JSON",
		"{}\n{\n":                                   "l:2: want JSON",
		"{\"stream\":\"a\",\"seq\":1,\"row\":0,\"withdrawn\":true}": "l:1: the label is withdrawn",
		"{" + strings.Repeat(" ", longestLabelLine):                 "l:1: more than",
	} {
		_, err := labelsIn(text)
		archivetest.WantError(t, err, want)
	}
}

func FuzzLabelFile(f *testing.F) {
	f.Add("stream,from,to,label\na,1,2,x\na,5,9,y\n")
	f.Add(`{"stream":"a","seq":3,"row":1,"label":"x"}`)
	f.Fuzz(func(t *testing.T, text string) {
		l, err := labelsIn(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "offline: l") {
				t.Errorf("the error does not name the file: %v", err)
			}
			return
		}
		for stream, all := range l.spans {
			for i, s := range all {
				if s.from >= s.to || i > 0 && s.from < all[i-1].to || l.at(stream, s.from) != s.label || l.at(stream, s.to-1) != s.label {
					t.Errorf("stream %q has the spans %+v", stream, all)
				}
			}
		}
	})
}
