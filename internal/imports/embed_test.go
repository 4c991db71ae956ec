package imports

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/testing/archivetest"
	"github.com/eusn-stream/eusn-stream/internal/testing/parts"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// someText is a folder of invented documents of three classes: neutral words 3 to 49, and
// some words of each class.
func someText(t testing.TB) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	part := func(n int) string {
		var b bytes.Buffer
		for i := range n {
			class := i * 7 % 3
			fmt.Fprintf(&b, "%d\t1", class)
			for range 4 + rng.IntN(12) {
				word := 3 + rng.IntN(47)
				if rng.IntN(3) == 0 {
					word = 50 + 10*class + rng.IntN(10)
				}
				fmt.Fprint(&b, " ", word)
			}
			fmt.Fprintln(&b)
		}
		return string(archivetest.Zipped(t, b.Bytes()))
	}
	return archivetest.Place(t, map[string]string{"Text_TRAIN.txt.gz": part(90), "Text_TEST.txt.gz": part(40)})
}

// someOptions are options for someText.
var someOptions = EmbedOptions{Words: 80, Tokens: 10, Epochs: 4, Seed: 3, Tool: "tool"}

func importText(t testing.TB, dir string) *archive.Dataset {
	t.Helper()
	d, err := Import(t.Context(), Options{Dir: dir, NumWords: 80}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// embed returns the archive's data set, its bytes, and the report.
func embed(t testing.TB, d *archive.Dataset, o EmbedOptions) (*archive.Dataset, []byte, EmbedReport) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "e.parquet")
	r, err := Embed(t.Context(), path, d, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := archive.ReadDataset(path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return e, data, r
}

// Each sample is the vector of the word at its place: the same for equal words, different
// for different words. The documents keep order, names, labels and parts, and the
// provenance records the conversion.
func TestEmbed(t *testing.T) {
	d := importText(t, someText(t))
	for _, fromStart := range []bool{false, true} {
		o := someOptions
		o.FromStart = fromStart
		e, _, r := embed(t, d, o)
		if r.Learned != 60 || r.Validated != 30 || r.Last.Number != 4 || r.Best.Number != r.Taken {
			t.Errorf("report %+v", r)
		}
		if e.Name != "Text" || len(e.Channels) != 32 || !slices.Equal(e.Classes, []string{"0", "1", "2"}) || len(e.Series) != 130 {
			t.Fatalf("%s: %d channels, classes %q, %d series", e.Name, len(e.Channels), e.Classes, len(e.Series))
		}
		side := map[bool]string{false: "the last 10", true: "the first 10"}[fromStart]
		if s := e.Source; s.Format != "embedded tokens" || s.Tool != "tool" || len(s.Files) != 2 || !strings.Contains(s.Note, side) {
			t.Errorf("provenance %+v", s)
		}
		vectors, words := map[int32]string{}, map[string]int32{}
		padded, long := 0, 0
		for i := range e.Series {
			s, from := &e.Series[i], &d.Series[i]
			if s.ID != from.ID || s.Split != from.Split || s.Label != from.Label || e.Len(i) != 10 {
				t.Fatalf("series %d: %s of %s, class %d, %d samples", i, s.ID, s.Split, s.Label, e.Len(i))
			}
			// Leading zeros of a copy make ten tokens; removed tokens come from either
			// end.
			tokens := append(make([]int32, max(0, 10-len(from.Tokens))), from.Tokens...)
			if len(from.Tokens) < 10 {
				padded++
			} else if len(from.Tokens) > 10 {
				long++
			}
			if tokens = tokens[len(tokens)-10:]; fromStart && len(from.Tokens) > 10 {
				tokens = from.Tokens[:10]
			}
			for k, word := range tokens {
				v := fmt.Sprint(s.Values[k*32 : (k+1)*32])
				if known, ok := vectors[word]; ok && known != v {
					t.Fatalf("series %d, sample %d: another vector of word %d than before", i, k, word)
				}
				if other, ok := words[v]; ok && other != word {
					t.Fatalf("words %d and %d have the same vector", word, other)
				}
				vectors[word], words[v] = v, word
			}
		}
		if padded == 0 || long == 0 || len(vectors) < 70 {
			t.Errorf("%d short and %d long documents, %d words: too few to test anything", padded, long, len(vectors))
		}
	}
}

// The vectors do not depend on the test part, and the bytes of the archive do not depend
// on threads.
func TestEmbedDepends(t *testing.T) {
	d := importText(t, someText(t))
	_, want, _ := embed(t, d, someOptions)
	for _, threads := range []int{1, 3} {
		old := runtime.GOMAXPROCS(threads)
		_, got, _ := embed(t, d, someOptions)
		runtime.GOMAXPROCS(old)
		if !bytes.Equal(got, want) {
			t.Errorf("other bytes on %d threads", threads)
		}
	}
	plain, _, report := embed(t, d, someOptions)
	for i := range d.Series {
		if s := &d.Series[i]; s.Split == archive.Test {
			s.Label = (s.Label + 1) % 3
			if i%2 == 0 {
				s.Label = -1
			}
		}
	}
	other, _, r := embed(t, d, someOptions)
	for i := range plain.Series {
		if !slices.Equal(plain.Series[i].Values, other.Series[i].Values) {
			t.Fatalf("series %q: other values with other test labels", plain.Series[i].ID)
		}
	}
	if r != report {
		t.Errorf("with other test labels %+v, before %+v", r, report)
	}
	o := someOptions
	o.Seed++
	if _, got, _ := embed(t, d, o); bytes.Equal(got, want) {
		t.Error("the same bytes with another seed")
	}
}

// With LastEpoch the vectors differ if the last epoch is not the best.
func TestEmbedLastEpoch(t *testing.T) {
	d := importText(t, someText(t))
	o := someOptions
	o.Epochs = 60
	best, _, r := embed(t, d, o)
	if r.Last.Number != r.Best.Number+embedPatience || r.Taken != r.Best.Number {
		t.Fatalf("%+v: want the learning to stop by itself, 10 epochs after the best", r)
	}
	o.LastEpoch = true
	last, _, r := embed(t, d, o)
	if r.Taken != r.Last.Number || slices.Equal(best.Series[0].Values, last.Series[0].Values) {
		t.Errorf("%+v, the same vectors as in the best epoch", r)
	}
	o = someOptions // with the last epoch as the best
	o.Epochs = 2
	a, _, _ := embed(t, d, o)
	o.LastEpoch = true
	if b, _, r := embed(t, d, o); r.Best != r.Last || !slices.Equal(a.Series[9].Values, b.Series[9].Values) {
		t.Errorf("%+v, other vectors than those of the same epoch, called the best", r)
	}
}

func TestEmbedRefuses(t *testing.T) {
	text := func(train, test string) map[string]string {
		return map[string]string{"T_TRAIN.txt": train, "T_TEST.txt": test}
	}
	const fine = "0\t1 4\n1\t1 5\n0\t1 6\n1\t1 7\n"
	for _, c := range []struct {
		files map[string]string
		o     EmbedOptions
		want  string
	}{
		{text("0\t1 4\n0\t1 5\n0\t1 6\n1\t1 7\n", fine), someOptions, "shuffle"},
		{text("0\t1 4\n", "0\t1 5\n"), someOptions, "1 labeled training documents"},
		{text(fine, fine+"2\t9\n"), someOptions, `class "2" has test documents and no training document`},
		{text(fine, "0\t1 12 14\n"), EmbedOptions{Words: 14, Tokens: 9}, `series "test-0": token 2 is 14, want 0 to 13`},
		{text(fine, fine), EmbedOptions{Words: -1}, "want at least 1 of each"},
		{text(fine, fine), EmbedOptions{Epochs: -1}, "want at least 1 of each"},
		{text(fine, fine), EmbedOptions{Tokens: -1}, "want at least 1 of each"},
		{text(fine, fine), EmbedOptions{Tokens: 1 << 40}, "at most"},
		{map[string]string{"T_TRAIN.ts": "@classLabel true a\n@data\n1:a\n"}, someOptions, "1 channels, want token lists"},
	} {
		d := importText(t, archivetest.Place(t, c.files))
		dir := t.TempDir()
		_, err := Embed(t.Context(), filepath.Join(dir, "e.parquet"), d, c.o, nil)
		archivetest.WantError(t, err, c.want)
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: left behind %v", c.want, left)
		}
	}
	// A test part is optional.
	d := importText(t, archivetest.Place(t, map[string]string{"T_TRAIN.txt": fine}))
	if e, _, _ := embed(t, d, someOptions); len(e.Series) != 4 {
		t.Errorf("%d series, want 4", len(e.Series))
	}
	for name, c := range map[string]struct{ data, want string }{
		"torn":  {string(archivetest.Zipped(t, []byte(fine)))[:30], "the compressed data ends early"},
		"empty": {"0\t1 4\n1\t\n", "T_TRAIN.txt:2: the document has no tokens"},
	} {
		file := map[string]string{"torn": "T_TRAIN.txt.gz", "empty": "T_TRAIN.txt"}[name]
		_, err := Import(t.Context(), Options{Dir: archivetest.Place(t, map[string]string{file: c.data})}, nil)
		archivetest.WantError(t, err, c.want)
	}
}

// For any time of cancellation, an error reports it and no file is left.
func TestEmbedStops(t *testing.T) {
	d := importText(t, someText(t))
	enough := errors.New("enough")
	for _, phase := range []string{"documents gone through", "series written"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		dir := t.TempDir()
		_, err := Embed(ctx, filepath.Join(dir, "e.parquet"), d, someOptions, func(done, total int64, what string) {
			if what == phase {
				if done > total {
					t.Errorf("%s: %d of %d", what, done, total)
				}
				cancel(enough)
			}
		})
		left, _ := os.ReadDir(dir)
		if !errors.Is(err, enough) || len(left) > 0 {
			t.Errorf("%s: %v, left behind %v", phase, err, left)
		}
	}
}

// The first documents of Reuters, with exactly these figures: the figures change only
// with the texts, the learning or the seed.
func TestEmbedReuters(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT CHECKED: -short, and the text of Reuters takes seconds")
	}
	datasets := filepath.Join("..", "..", "..", "shared", "datasets")
	if _, err := os.Stat(filepath.Join(datasets, "PROVENANCE.md")); err != nil {
		parts.Absent(t, "datasets", "nothing is tested on real data: %v", err)
	}
	d, err := Import(t.Context(), Options{Dir: filepath.Join(datasets, "Reuters")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.Series = slices.Concat(d.Series[:600], d.Series[8982:8982+40])
	used := map[int]bool{}
	for _, i := range d.Part(archive.Train) {
		used[d.Series[i].Label] = true
	}
	d.Series = slices.DeleteFunc(d.Series, func(s archive.Series) bool { return !used[s.Label] })
	e, _, r := embed(t, d, EmbedOptions{Epochs: 2, Seed: 1})
	if len(e.Series) != len(d.Series) || e.Len(0) != 200 || r.Learned != 401 || r.Validated != 199 {
		t.Errorf("%d series of %d samples, %+v", len(e.Series), e.Len(0), r)
	}
	const want = 90. / 199
	if runtime.GOARCH == "amd64" && r.Last.Accuracy != want || r.Last.Accuracy < 0.4 {
		t.Errorf("accuracy %v after two epochs (%.0f of 199), want %v", r.Last.Accuracy, 199*r.Last.Accuracy, want)
	}
}
