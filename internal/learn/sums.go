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
	"github.com/eusn-stream/eusn-stream/internal/exact"
)

const (
	sumsName    = "sums-%06d.sum"
	sumsMagic   = "EUSNLSUM"
	sumsVersion = 1
	sumsHead    = len(sumsMagic) + 8
)

// group is a set of summed sequences: of one site, labeled by the same persons.
type group struct {
	path    string
	number  int
	head    groupHead
	members map[key]int // class of each sequence, in head.Classes
	offset  int64       // position of the sums in the file
}

// groupHead describes a group in its file, without its sequences.
type groupHead struct {
	Site      string   `json:"site"`
	Who       string   `json:"who"` // names, one per line
	Classes   []string `json:"classes"`
	Sequences int      `json:"sequences"`
	Labels    uint64   `json:"labels"` // number of the last known label
}

// member is a sequence in the file.
type member struct {
	Entry
	Class int `json:"class"`
}

func (g *group) sameGroup(o *group) bool {
	return g.head.Site == o.head.Site && g.head.Who == o.head.Who
}

// writeFile writes a group to a file with this number.
func (g *group) writeFile(dir string, number int, entries []Entry, sums *exact.Sums) error {
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
	g.path, g.number, g.offset = path, number, int64(len(b))
	return nil
}

// readGroup reads a group without its sums.
func readGroup(path string, from io.Reader, size int64) (*group, []Entry, error) {
	bad := func(format string, args ...any) (*group, []Entry, error) {
		return nil, nil, fmt.Errorf("learn: %s: %s: %w; remove the file, then run learn --whole, which recomputes the features from the log", path, fmt.Sprintf(format, args...), ErrDamaged)
	}
	sum := crc32.New(castagnoli)
	r := io.TeeReader(bufio.NewReaderSize(io.LimitReader(from, size), 1<<16), sum)
	le, head := binary.LittleEndian, make([]byte, sumsHead)
	if _, err := io.ReadFull(r, head); err != nil || string(head[:len(sumsMagic)]) != sumsMagic {
		return bad("not a file of sums")
	}
	if v := le.Uint32(head[len(sumsMagic):]); v != sumsVersion {
		return nil, nil, fmt.Errorf("learn: %s: version %d, but this program reads version %d: use the program that wrote the file", path, v, sumsVersion)
	}
	g := &group{path: path, members: map[key]int{}, offset: int64(sumsHead)}
	readJSON := func(n uint32, to any) error {
		if g.offset += int64(n); n > longestEntry || g.offset > size {
			return errors.New("the entry of a sequence is longer than the rest of the file")
		}
		var text bytes.Buffer
		if _, err := io.CopyN(&text, r, int64(n)); err != nil {
			return err
		}
		return json.Unmarshal(text.Bytes(), to)
	}
	if err := readJSON(le.Uint32(head[len(sumsMagic)+4:]), &g.head); err != nil {
		return bad("%v", err)
	}
	var entries []Entry
	var four [4]byte
	for range g.head.Sequences {
		if _, err := io.ReadFull(r, four[:]); err != nil {
			return bad("it ends within its sequences")
		}
		g.offset += 4
		var m member
		if err := readJSON(le.Uint32(four[:]), &m); err != nil {
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
	g.offset += 4
	return g, entries, nil
}

// readSums reads the sums of a group.
func (g *group) readSums(features int) (*exact.Sums, error) {
	f, err := os.Open(g.path)
	if err != nil {
		return nil, fmt.Errorf("learn: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("learn: %w", err)
	}
	s, err := exact.DecodeSums(io.NewSectionReader(f, g.offset, info.Size()-g.offset), info.Size()-g.offset)
	if err == nil && (s.Features() != features || s.Samples() != len(g.members) || s.Classes() != len(g.head.Classes)) {
		err = fmt.Errorf("sums of %d sequences of %d features and %d classes, want %d, %d and %d", s.Samples(), s.Features(), s.Classes(), len(g.members), features, len(g.head.Classes))
	}
	if err != nil {
		return nil, fmt.Errorf("learn: %s: %w: %w; remove the file, then run learn --whole, which recomputes the features from the log", g.path, err, ErrDamaged)
	}
	return s, nil
}

// loadGroup adds a group from a file. Of two files of a group, the later file counts: the earlier
// file was about to be removed.
func (s *Store) loadGroup(path string, number int) error {
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
	if i := slices.IndexFunc(s.groups, g.sameGroup); i >= 0 {
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
			s.entries[keyOf(&e)] = storedEntry{Entry: e}
		}
	}
	return nil
}

// ErrGone means that required features were replaced by sums.
var ErrGone = errors.New("their features were replaced by sums")

// lackingFeatures returns the sequences whose features are required for these examples but not
// stored, and descriptions of their groups.
func (s *Store) lackingFeatures(examples []Example) (all map[key]bool, groups []string) {
	class := classOf(examples)
	all = map[key]bool{}
	for _, g := range s.groups {
		unchanged, need := 0, []key{}
		for k, c := range g.members {
			now, included := class[k]
			switch {
			case included && now == g.head.Classes[c]:
				unchanged++
			case s.entries[k].segment == "":
				need = append(need, k)
			}
		}
		n := 0
		for _, k := range need {
			if _, included := class[k]; included || unchanged > 0 {
				all[k] = true
				n++
			}
		}
		if n > 0 {
			groups = append(groups, fmt.Sprintf("%d of %d of %s", n, len(g.members), g))
		}
	}
	slices.Sort(groups)
	return all, groups
}

// MarkNeeded marks the sequences whose features are required for these examples but not stored, for
// the next Pass. It returns their number.
func (s *Store) MarkNeeded(examples []Example) int {
	s.needed, _ = s.lackingFeatures(examples)
	return len(s.needed)
}

// String describes a group.
func (g *group) String() string {
	who := bytes.ReplaceAll([]byte(g.head.Who), []byte("\n"), []byte(" and "))
	return fmt.Sprintf("site %q, labeled by %s", cmp.Or(g.head.Site, "all"), who)
}

func classOf(examples []Example) map[key]string {
	class := make(map[key]string, len(examples))
	for i := range examples {
		class[keyOf(&examples[i].Entry)] = examples[i].Class
	}
	return class
}

// HasSummed reports whether one of the examples has only sums.
func (s *Store) HasSummed(examples []Example) bool {
	for i := range examples {
		if s.entries[keyOf(&examples[i].Entry)].segment == "" {
			return true
		}
	}
	return false
}
