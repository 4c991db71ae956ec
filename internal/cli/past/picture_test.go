package past

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/eusn-stream/eusn-stream/internal/explain"
)

// drawable returns an explanation of a sequence with the given channels and samples.
func drawable(channels, samples, stretches int) *explain.Explanation {
	e := &explain.Explanation{
		Prediction: explain.Prediction{Stream: "pump-3", Seq: 7, Row: 4, Class: "worn", Probability: .93, Integrity: "unlike-training", Flags: "flat"},
		Score: &explain.Score{
			Class: "worn", RunnerUp: "healthy", Score: explain.Part{Difference: 1.5}, Features: explain.Part{Difference: 1.6}, Bias: explain.Part{Difference: -.1},
			Kinds:   []explain.Share{{What: "mean", Part: explain.Part{Difference: 2}}, {What: "last", Part: explain.Part{Difference: -.4}}},
			Members: []explain.Member{{Member: 3, Channels: []string{"c0"}, Part: explain.Part{Difference: 1.6}}},
		},
	}
	for c := range channels {
		name := "c" + strconv.Itoa(c)
		e.Held = append(e.Held, explain.HeldChannel{Channel: name, HeldResult: explain.HeldResult{Change: -float64(c + 1)}})
		e.Score.Channels = append(e.Score.Channels, explain.Share{What: name, Part: explain.Part{Difference: 1}})
	}
	for i := range samples * channels {
		e.Values = append(e.Values, float32(math.Sin(float64(i)/7)))
	}
	for k := range stretches {
		s := explain.Stretch{From: samples * k / stretches, To: samples * (k + 1) / stretches, HeldResult: explain.HeldResult{Change: float64(k) - 1}}
		for c := range channels {
			s.Channels = append(s.Channels, float64(c-k))
		}
		e.Stretches = append(e.Stretches, s)
	}
	return e
}

// shape is an element of a picture.
type shape struct {
	name, text string
	at         map[string]string
}

func (s *shape) number(t *testing.T, key string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s.at[key], 64)
	if err != nil {
		t.Fatalf("%s %v: %v", s.name, s.at, err)
	}
	return v
}

// letter is an upper bound of the mean width of a character, relative to its height:
// 0.6 in DejaVu Sans, wider than a browser's font.
const letter = .6

// shapesOf reads a picture, and requires all shapes within the frame, and no text
// beyond the text's space.
func shapesOf(t *testing.T, svg []byte) (all []shape) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(string(svg)))
	width, height := 0.0, 0.0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		switch v := token.(type) {
		case xml.StartElement:
			s := shape{name: v.Name.Local, at: map[string]string{}}
			for _, a := range v.Attr {
				s.at[a.Name.Local] = a.Value
			}
			all = append(all, s)
			switch s.name {
			case "svg":
				if _, err := fmt.Sscanf(s.at["viewBox"], "0 0 %g %g", &width, &height); err != nil {
					t.Fatal(err)
				}
			case "rect":
				if len(s.at["x"]) > 0 && (s.number(t, "x") < 0 || s.number(t, "x")+s.number(t, "width") > width || s.number(t, "y") < 0 || s.number(t, "y")+s.number(t, "height") > height) {
					t.Errorf("outside the picture of %g x %g: %v", width, height, s.at)
				}
			case "text":
				if x, y := s.number(t, "x"), s.number(t, "y"); x < 0 || x > width || y < 0 || y > height {
					t.Errorf("outside the picture of %g x %g: %v", width, height, s.at)
				}
			}
		case xml.CharData:
			if len(all) > 0 {
				all[len(all)-1].text += string(v)
			}
		}
	}
	ends := map[string]float64{} // of left-aligned text, by its line
	for _, s := range all {
		if s.name != "text" {
			continue
		}
		x, long := s.number(t, "x"), letter*s.number(t, "font-size")*float64(utf8.RuneCountInString(strings.TrimSpace(s.text)))
		from, to := x, x+long
		switch s.at["text-anchor"] {
		case "end":
			from, to = x-long, x
		case "middle":
			from, to = x-long/2, x+long/2
		}
		if from < 0 || to > width {
			t.Errorf("a text from %.0f to %.0f of %.0f: %q", from, to, width, s.text)
		}
		if line := s.at["y"]; s.at["text-anchor"] == "end" && from < ends[line] {
			t.Errorf("%q begins at %.0f, and a text before it ends at %.0f", s.text, from, ends[line])
		} else if s.at["text-anchor"] != "end" {
			ends[line] = max(ends[line], to)
		}
	}
	return all
}

// A cell for each channel and stretch, in the color of the favored class and as strong
// as its change; a bar for each stretch of all channels.
func TestPicture(t *testing.T) {
	all := shapesOf(t, picture(drawable(2, 100, 4)))
	cells, bars := 0, 0
	for i, s := range all {
		if s.name != "rect" || i+1 == len(all) || all[i+1].name != "title" {
			continue
		}
		var from, to int
		var part float64
		if _, err := fmt.Sscanf(all[i+1].text, "samples %d to %d: %g", &from, &to, &part); err != nil {
			t.Fatalf("%q: %v", all[i+1].text, err)
		}
		if want := colorOf(part); s.at["fill"] != want {
			t.Errorf("%s has the color %s, want %s", all[i+1].text, s.at["fill"], want)
		}
		if s.at["fill-opacity"] == "" {
			bars++
			continue
		}
		cells++
		k := from / 25
		c := 0
		if cells > 4 {
			c = 1
		}
		// the largest change of a cell is 3
		if want := float64(k - c); part != want || math.Abs(s.number(t, "fill-opacity")-.75*math.Abs(want)/3) > 1e-3 {
			t.Errorf("%s with the strength %s, want %g", all[i+1].text, s.at["fill-opacity"], want)
		}
	}
	if cells != 8 || bars != 4 {
		t.Errorf("%d cells and %d bars, want 8 and 4", cells, bars)
	}
	text := ""
	for _, s := range all {
		text += s.text + "\n"
	}
	for _, want := range []string{"pump-3: why worn, and not healthy", "probability 0.930; seq 7, row 4; integrity unlike-training (flat)", "speaks for worn", "speaks for healthy", "all channels", "sample 99", "Contributions of the kinds of features", "member 3 (c0)", "no causes"} {
		if !strings.Contains(text, want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
}

// Unknown, excessive, constant or hostile values still give a complete picture.
func TestPictureOfAnything(t *testing.T) {
	none := drawable(2, 100, 0)
	none.Held, none.Values, none.HeldWhy = nil, nil, "the sequence began before what was read"
	if text := string(picture(none)); !strings.Contains(text, none.HeldWhy) {
		t.Errorf("the picture does not say why it lacks samples:\n%s", text)
	}
	shapesOf(t, picture(none))
	shapesOf(t, picture(drawable(1, 1, 1)))
	shapesOf(t, picture(drawable(3, 100000, 200)))
	long := drawable(4, 100, 10)
	name := strings.Repeat("name of it ", 20)
	long.Prediction.Stream, long.Prediction.Class, long.Score.Class, long.Score.RunnerUp = name, name, name, name
	long.Prediction.Flags = "gap|reordered|held|warm-up|early|poison-skipped|idle|out-of-range|flat|length|rate"
	for c := range long.Held {
		long.Held[c].Channel, long.Score.Channels[c].What = name, name
	}
	shapesOf(t, picture(long))
	many := drawable(40, 50, 10)
	for k := range many.Stretches {
		many.Stretches[k].Channels = nil
	}
	if text := string(picture(many)); !strings.Contains(text, "and 32 more channels") || !strings.Contains(text, ">c39<") {
		t.Error("not the channels that change most")
	}
	shapesOf(t, picture(many))
	still := drawable(2, 10, 2)
	for i := range still.Values {
		still.Values[i] = 3
	}
	for k := range still.Stretches {
		still.Stretches[k].Change, still.Stretches[k].Channels = 0, []float64{0, 0}
	}
	still.Prediction.Stream, still.Score.Class, still.Held[0].Channel = "<b>&\"\x00\x1b[31m", "</text><script>", "<&>"
	for _, s := range shapesOf(t, picture(still)) {
		if s.name == "script" || s.name == "b" {
			t.Errorf("a name has become an element: %+v", s)
		}
	}
}
