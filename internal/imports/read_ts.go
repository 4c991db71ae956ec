package imports

import (
	"bytes"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/eusn-stream/eusn-stream/internal/datafile"
	"github.com/eusn-stream/eusn-stream/internal/names"
)

// claim is the header's answer to a yes-or-no question.
type claim int8

const (
	unsaid claim = iota
	no
	yes
)

// tsReader reads the .ts format of the UEA archive and aeon: header lines beginning with
// @, then @data, then a series per line, channels separated by colons, values by commas,
// the class label last.
type tsReader struct {
	src        *source
	out        part
	univariate claim
	equal      claim
	missing    claim
	length     int // @seriesLength, then the length of the first series; 0 unknown
	lengthFrom string
	classLine  bool            // the header has a @classLabel line
	known      map[string]bool // the declared classes
	scratch    []float32       // a series, channel after channel
}

func readTS(src *source) (*part, error) {
	r := &tsReader{src: src, lengthFrom: "@seriesLength"}
	if err := r.header(); err != nil {
		return nil, err
	}
	if err := r.checkHeader(); err != nil {
		return nil, err
	}
	for {
		line, err := r.readLine()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := r.parseSeries(line); err != nil {
			return nil, err
		}
	}
	if len(r.out.series) == 0 {
		return nil, src.errorf("no series after @data: the file is truncated or empty")
	}
	return &r.out, nil
}

// readLine returns the next line that is neither blank nor a comment.
func (r *tsReader) readLine() ([]byte, error) {
	for {
		line, err := r.src.readLine()
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return line, nil
		}
	}
}

func (r *tsReader) header() error {
	seen := map[string]bool{}
	for {
		line, err := r.readLine()
		if err == io.EOF {
			return r.src.errorf("the file ends before @data: it is truncated or not a .ts file")
		}
		if err != nil {
			return err
		}
		if line[0] != '@' {
			return r.src.errorf("want a header line beginning with @ (or @data before the series), got %q", clip(line))
		}
		if !utf8.Valid(line) {
			return r.src.errorf("the header line is not valid UTF-8")
		}
		words := strings.Fields(string(line))
		key := strings.ToLower(words[0])
		if key == "@data" {
			return nil
		}
		if seen[key] {
			return r.src.errorf("%s is twice in the header", words[0])
		}
		seen[key] = true
		if err := r.declare(key, words); err != nil {
			return err
		}
	}
}

// declare parses a header line. Its key is in lower case.
func (r *tsReader) declare(key string, words []string) (err error) {
	switch key {
	case "@problemname":
		r.out.problem = strings.Join(words[1:], " ")
	case "@timestamps":
		var c claim
		if c, err = r.yesNo(words); err == nil && c == yes {
			err = r.src.errorf("time stamps inside series are not supported: write the file with @timeStamps false and values only")
		}
	case "@missing":
		r.missing, err = r.yesNo(words)
	case "@univariate":
		r.univariate, err = r.yesNo(words)
	case "@equallength":
		r.equal, err = r.yesNo(words)
	case "@dimension", "@dimensions":
		r.out.channels, err = r.parseCount(words, datafile.MaxChannels)
	case "@serieslength":
		r.length, err = r.parseCount(words, 1<<31-1)
	case "@classlabel":
		err = r.classes(words)
	case "@targetlabel":
		var c claim
		if c, err = r.yesNo(words[:min(len(words), 2)]); err == nil && c == yes {
			err = r.src.errorf("@targetLabel true: a regression problem, want a problem with class labels")
		}
	default:
		r.out.warnings = append(r.out.warnings, r.src.errorf("unknown header %s ignored", words[0]).Error())
	}
	return err
}

func (r *tsReader) yesNo(words []string) (claim, error) {
	if len(words) == 2 {
		switch strings.ToLower(words[1]) {
		case "true":
			return yes, nil
		case "false":
			return no, nil
		}
	}
	return unsaid, r.src.errorf("want %s true or %s false, got %q", words[0], words[0], clip([]byte(strings.Join(words, " "))))
}

func (r *tsReader) parseCount(words []string, limit int) (int, error) {
	if len(words) == 2 {
		if n, err := strconv.Atoi(words[1]); err == nil && n >= 1 && n <= limit {
			return n, nil
		}
	}
	return 0, r.src.errorf("want %s followed by a whole number of 1..%d, got %q", words[0], limit, clip([]byte(strings.Join(words, " "))))
}

func (r *tsReader) classes(words []string) error {
	c, err := r.yesNo(words[:min(len(words), 2)])
	if err != nil {
		return err
	}
	r.classLine, r.out.labeled = true, c == yes
	if c == no && len(words) > 2 {
		return r.src.errorf("@classLabel false is followed by classes, want none")
	}
	if c == no {
		return nil
	}
	if len(words) == 2 {
		return r.src.errorf("@classLabel true names no class, want the list of all classes")
	}
	r.out.classes = slices.Clone(words[2:])
	r.known = make(map[string]bool, len(words))
	for _, w := range r.out.classes {
		if err := names.Check("class name", w); err != nil {
			return r.src.errorf("%w", err)
		}
		if r.known[w] {
			return r.src.errorf("@classLabel names class %q twice", clip([]byte(w)))
		}
		r.known[w] = true
	}
	return nil
}

// checkHeader compares the header's claims with each other.
func (r *tsReader) checkHeader() error {
	switch dims := r.out.channels; {
	case !r.classLine:
		return r.src.errorf("the header has no @classLabel line: want @classLabel true and the classes, or @classLabel false")
	case r.univariate == yes && dims > 1:
		return r.src.errorf("the header has @univariate true and @dimensions %d: one of the two lines is wrong", dims)
	case r.univariate == no && dims == 1:
		return r.src.errorf("the header has @univariate false and @dimensions 1: one of the two lines is wrong")
	case r.univariate == yes:
		r.out.channels = 1
	}
	if r.equal == no {
		r.length = 0 // some writers store the longest length
	}
	return nil
}

// parseSeries parses a data line.
func (r *tsReader) parseSeries(line []byte) error {
	s := rawSeries{}
	if r.out.labeled {
		cut := bytes.LastIndexByte(line, ':')
		if cut < 0 {
			return r.src.errorf("no colon in the line: want channels and the class label separated by colons")
		}
		s.label = string(bytes.TrimSpace(line[cut+1:]))
		line = line[:cut]
		if !r.known[s.label] && !r.out.matchDeclared(&s.label) {
			return r.src.errorf("label %q is not among the %d classes of @classLabel", clip([]byte(s.label)), len(r.out.classes))
		}
	}
	channels := bytes.Count(line, []byte{':'}) + 1
	if r.out.channels == 0 {
		if r.univariate == no && channels == 1 {
			return r.src.errorf("@univariate false, but the series has one channel")
		}
		if channels > datafile.MaxChannels {
			return r.src.errorf("the series has %d channels, want at most %d", channels, datafile.MaxChannels)
		}
		r.out.channels = channels
	}
	if channels != r.out.channels {
		return r.src.errorf("the series has %d channels, want %d", channels, r.out.channels)
	}
	if err := r.parseValues(line); err != nil {
		return err
	}
	s.values = interleave(r.scratch, channels)
	r.out.series = append(r.out.series, s)
	return nil
}

// parseValues parses all channels of a line into scratch and checks their lengths.
func (r *tsReader) parseValues(line []byte) error {
	r.scratch = r.scratch[:0]
	samples := 0
	for c := range r.out.channels {
		var channel []byte
		channel, line, _ = bytes.Cut(line, []byte{':'})
		n := bytes.Count(channel, []byte{','}) + 1
		if c == 0 {
			samples = n
		}
		if n != samples {
			return r.src.errorf("channel %d has %d values, channel 1 has %d: want the same", c+1, n, samples)
		}
		if err := r.src.reserve(n); err != nil {
			return err
		}
		if err := r.parseChannel(c, channel); err != nil {
			return err
		}
	}
	return r.checkLength(samples)
}

func (r *tsReader) parseChannel(c int, text []byte) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return r.src.errorf("channel %d has no values", c+1)
	}
	for i, more := 1, true; more; i++ {
		var field []byte
		field, text, more = bytes.Cut(text, []byte{','})
		v, ok := parseValue(field)
		if !ok {
			return r.src.errorf("value %d of channel %d: want a finite number, ? or NaN, got %q", i, c+1, clip(field))
		}
		if v != v && r.missing == no {
			return r.src.errorf("value %d of channel %d is missing, but the header has @missing false", i, c+1)
		}
		r.scratch = append(r.scratch, v)
	}
	return nil
}

func (r *tsReader) checkLength(samples int) error {
	if r.equal == yes && r.length == 0 {
		r.length, r.lengthFrom = samples, "the first series under @equalLength true"
	}
	if r.length != 0 && samples != r.length {
		return r.src.errorf("the series has %d samples, want %d according to %s", samples, r.length, r.lengthFrom)
	}
	return nil
}
