package learn

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/durable"
	"github.com/eusn-stream/eusn-stream/readout"
)

const (
	sumsName    = "sums-%06d.sum"
	sumsMagic   = "EUSNLSUM"
	sumsVersion = 1
	sumsHead    = len(sumsMagic) + 8
)

// group is sequences whose features were added up: those of one site that the same
// people have said something of.
type group struct {
	path    string
	number  int
	head    groupHead
	members map[key]int // the class of each, in head.Classes
	at      int64       // of the sums, in the file
}

// groupHead is what a file says of a group, but for its sequences.
type groupHead struct {
	Site      string   `json:"site"`
	Who       string   `json:"who"` // names, one a line
	Classes   []string `json:"classes"`
	Sequences int      `json:"sequences"`
	Labels    uint64   `json:"labels"` // number of the last label that was known
}

// member is a sequence as the file has it.
type member struct {
	Entry
	Class int `json:"class"`
}

func (g *group) same(o *group) bool { return g.head.Site == o.head.Site && g.head.Who == o.head.Who }

// write gives a group a file of that number.
func (g *group) write(dir string, number int, entries []Entry, sums *readout.Sums) error {
	g.head.Sequences = len(entries)
	text, err := json.Marshal(g.head)
	if err != nil {
		return fmt.Errorf("learn: %w", err)
	}
	le := binary.LittleEndian
	b := le.AppendUint32(le.AppendUint32([]byte(sumsMagic), sumsVersion), uint32(len(text)))
	b = append(b, text...)
	for i := range entries {
		text, err := json.Marshal(member{entries[i], g.members[keyOf(&entries[i])]})
		if err != nil {
			return fmt.Errorf("learn: %w", err)
		}
		b = append(le.AppendUint32(b, uint32(len(text))), text...)
	}
	b = le.AppendUint32(b, crc32.Checksum(b, castagnoli))
	path := filepath.Join(dir, fmt.Sprintf(sumsName, number))
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("learn: %w", err)
	}
	_, err = f.Write(b)
	if err == nil {
		err = sums.Encode(f)
	}
	if err != nil {
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	} else {
		err = durable.Commit(f, path, 0o600)
	}
	if err != nil {
		return fmt.Errorf("learn: %w", err)
	}
	g.path, g.number, g.at = path, number, int64(len(b))
	return nil
}

// readGroup reads a group without its sums.
func readGroup(path string, from io.Reader, size int64) (*group, []Entry, error) {
	bad := func(format string, args ...any) (*group, []Entry, error) {
		return nil, nil, fmt.Errorf("learn: %s: %s: %w; remove the file, then learn --whole: what the log still has is computed again", path, fmt.Sprintf(format, args...), ErrDamaged)
	}
	sum := crc32.New(castagnoli)
	r := io.TeeReader(bufio.NewReaderSize(io.LimitReader(from, size), 1<<16), sum)
	le, head := binary.LittleEndian, make([]byte, sumsHead)
	if _, err := io.ReadFull(r, head); err != nil || string(head[:len(sumsMagic)]) != sumsMagic {
		return bad("it does not begin as sums of features")
	}
	if v := le.Uint32(head[len(sumsMagic):]); v != sumsVersion {
		return nil, nil, fmt.Errorf("learn: %s: it has version %d, and this program reads version %d: use the program that wrote it", path, v, sumsVersion)
	}
	g := &group{path: path, members: map[key]int{}, at: int64(sumsHead)}
	next := func(n uint32, to any) error {
		if g.at += int64(n); n > longestEntry || g.at > size {
			return errors.New("what it says of a sequence is longer than what is left")
		}
		var text bytes.Buffer
		if _, err := io.CopyN(&text, r, int64(n)); err != nil {
			return err
		}
		return json.Unmarshal(text.Bytes(), to)
	}
	if err := next(le.Uint32(head[len(sumsMagic)+4:]), &g.head); err != nil {
		return bad("%v", err)
	}
	var entries []Entry
	var four [4]byte
	for range g.head.Sequences {
		if _, err := io.ReadFull(r, four[:]); err != nil {
			return bad("it ends within its sequences")
		}
		g.at += 4
		var m member
		if err := next(le.Uint32(four[:]), &m); err != nil {
			return bad("%v", err)
		}
		if m.Class < 0 || m.Class >= len(g.head.Classes) {
			return bad("a sequence is of class %d of %d", m.Class, len(g.head.Classes))
		}
		g.members[keyOf(&m.Entry)] = m.Class
		entries = append(entries, m.Entry)
	}
	want := sum.Sum32()
	if _, err := io.ReadFull(r, four[:]); err != nil || le.Uint32(four[:]) != want {
		return bad("its sequences do not match their checksum")
	}
	g.at += 4
	return g, entries, nil
}

// sums reads the sums of a group.
func (g *group) sums(features int) (*readout.Sums, error) {
	f, err := os.Open(g.path)
	if err != nil {
		return nil, fmt.Errorf("learn: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("learn: %w", err)
	}
	s, err := readout.DecodeSums(io.NewSectionReader(f, g.at, info.Size()-g.at), info.Size()-g.at)
	if err == nil && (s.Features() != features || s.Samples() != len(g.members) || s.Classes() != len(g.head.Classes)) {
		err = fmt.Errorf("sums of %d sequences of %d features and %d classes, want %d, %d and %d", s.Samples(), s.Features(), s.Classes(), len(g.members), features, len(g.head.Classes))
	}
	if err != nil {
		return nil, fmt.Errorf("learn: %s: %w: %w; remove the file, then learn --whole: what the log still has is computed again", g.path, err, ErrDamaged)
	}
	return s, nil
}

// readGroup adds a group that a file has. Of two files of a group, the later one counts:
// the earlier one was about to be removed.
func (s *Store) readGroup(path string, number int) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("learn: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("learn: %w", err)
	}
	g, entries, err := readGroup(path, f, info.Size())
	if err != nil {
		return err
	}
	g.number = number
	s.sumFiles = max(s.sumFiles, number)
	if i := slices.IndexFunc(s.groups, g.same); i >= 0 {
		old := s.groups[i]
		if old.number > number {
			old, g = g, old
		}
		s.groups[i] = g
		if err := os.Remove(old.path); err != nil {
			return fmt.Errorf("learn: %w", err)
		}
		if s.groups[i].path != path {
			return nil
		}
	} else {
		s.groups = append(s.groups, g)
	}
	for _, e := range entries {
		if _, known := s.entries[keyOf(&e)]; !known {
			s.entries[keyOf(&e)] = stored{Entry: e}
		}
	}
	return nil
}

// ErrGone is that of sequences whose features are needed, and were given up.
var ErrGone = errors.New("their features were given up for sums")

// lacking are the sequences whose features are needed to learn from these examples, and
// are not there; of which groups, and how many of each.
func (s *Store) lacking(examples []Example) (all map[key]bool, of []string) {
	class := classOf(examples)
	all = map[key]bool{}
	for _, g := range s.groups {
		unchanged, need := 0, []key{}
		for k, c := range g.members {
			now, is := class[k]
			switch {
			case is && now == g.head.Classes[c]:
				unchanged++
			case s.entries[k].segment == "":
				need = append(need, k)
			}
		}
		n := 0
		for _, k := range need {
			if _, is := class[k]; is || unchanged > 0 {
				all[k] = true
				n++
			}
		}
		if n > 0 {
			of = append(of, fmt.Sprintf("%d of %d of %s", n, len(g.members), g))
		}
	}
	slices.Sort(of)
	return all, of
}

// Need remembers which sequences' features are needed to learn from these examples, and
// are not there: a Pass looks for them again. It returns how many there are.
func (s *Store) Need(examples []Example) int {
	s.again, _ = s.lacking(examples)
	return len(s.again)
}

// String names a group.
func (g *group) String() string {
	who := bytes.ReplaceAll([]byte(g.head.Who), []byte("\n"), []byte(" and "))
	return fmt.Sprintf("site %q, labelled by %s", cmp.Or(g.head.Site, "all"), who)
}

func classOf(examples []Example) map[key]string {
	class := make(map[key]string, len(examples))
	for i := range examples {
		class[keyOf(&examples[i].Entry)] = examples[i].Class
	}
	return class
}

// Summed reports whether the features of one of these are not there, but in sums.
func (s *Store) Summed(examples []Example) bool {
	for i := range examples {
		if s.entries[keyOf(&examples[i].Entry)].segment == "" {
			return true
		}
	}
	return false
}
