package imports

import (
	"bytes"
	"cmp"
	"io"
	"math"
	"strconv"

	"github.com/eusn-stream/eusn-stream/internal/names"
)

// unknownToken replaces every id beyond the vocabulary, as in keras.
const unknownToken = 2

// readTokens reads token lists: a document per line, "label<TAB>id id id ...". Ids from
// opts.NumWords on become unknownToken. Documents keep their length. Labels are all
// numbers or all names, like the first label.
func readTokens(src *source, opts Options) (*part, error) {
	limit := int64(cmp.Or(opts.NumWords, DefaultNumWords))
	if limit < 0 {
		limit = math.MaxInt32 + 1
	}
	p := &part{labeled: true}
	for {
		line, err := src.readLine()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		s, err := parseDocument(src, line, limit)
		if err != nil {
			return nil, err
		}
		if number := isNumber(s.label); len(p.series) > 0 && number != isNumber(p.series[0].label) {
			want := map[bool]string{true: "a name", false: "a number"}[number]
			return nil, src.errorf("label %q: want %s, as in the first document", clip([]byte(s.label)), want)
		}
		p.series = append(p.series, s)
	}
	if len(p.series) == 0 {
		return nil, src.errorf("no documents: the file is empty")
	}
	return p, nil
}

func isNumber(label string) bool {
	_, err := strconv.ParseInt(label, 10, 64)
	return err == nil
}

func parseDocument(src *source, line []byte, limit int64) (rawSeries, error) {
	label, rest, tab := bytes.Cut(line, []byte{'\t'})
	s := rawSeries{label: string(bytes.TrimSpace(label))}
	if !tab || s.label == "" {
		return s, src.errorf("want a label, a tab, and token ids separated by blanks, got %q", clip(line))
	}
	if err := names.Check("label", s.label); err != nil {
		return s, src.errorf("%w", err)
	}
	ids := bytes.Fields(rest)
	if len(ids) == 0 {
		return s, src.errorf("the document has no tokens")
	}
	if err := src.reserve(len(ids)); err != nil {
		return s, err
	}
	s.tokens = make([]int32, len(ids))
	for i, id := range ids {
		n, err := strconv.ParseInt(string(id), 10, 32)
		if err != nil || n < 0 {
			return s, src.errorf("token %d: want a whole number of 0..2147483647, got %q", i+1, clip(id))
		}
		if n >= limit {
			n = unknownToken
		}
		s.tokens[i] = int32(n)
	}
	return s, nil
}
