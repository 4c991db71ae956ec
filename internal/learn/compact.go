package learn

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/eusn-stream/eusn-stream/internal/durable"
	"github.com/eusn-stream/eusn-stream/readout"
)

// Total are the sums of these examples, whose classes are given in their order. What a
// group has that is not among them, or of another class, is taken out again; so the sums
// have the bits of sums that never had it.
func (s *Store) Total(ctx context.Context, examples []Example, classes []string) (*readout.Sums, error) {
	if lacking, of := s.lacking(examples); len(lacking) > 0 {
		return nil, fmt.Errorf("learn: %d sequences are to be left out, or are of another class than before: %s: %w", len(lacking), strings.Join(of[:min(3, len(of))], "; "), ErrGone)
	}
	class := classOf(examples)
	total, err := readout.NewSums(s.state.About.Features, len(classes))
	if err != nil {
		return nil, err
	}
	in := map[key]bool{}
	for _, g := range s.groups {
		var gone []key
		same := 0
		for k, c := range g.members {
			if now, is := class[k]; is && now == g.head.Classes[c] {
				same++
			} else {
				gone = append(gone, k)
			}
		}
		if same == 0 {
			continue
		}
		sums, err := g.sums(s.state.About.Features)
		if err != nil {
			return nil, err
		}
		if err := s.each(ctx, gone, func(k key) int { return g.members[k] }, sums.Remove); err != nil {
			return nil, err
		}
		number := make([]int, len(g.head.Classes))
		for c, name := range g.head.Classes {
			number[c] = slices.Index(classes, name) // -1: all of that class are gone
		}
		if err := total.Merge(sums, number); err != nil {
			return nil, err
		}
		for k, c := range g.members {
			in[k] = class[k] == g.head.Classes[c]
		}
	}
	var rest []key
	for i := range examples {
		if k := keyOf(&examples[i].Entry); !in[k] {
			rest = append(rest, k)
		}
	}
	return total, s.each(ctx, rest, func(k key) int { return slices.Index(classes, class[k]) }, total.Add)
}

// each hands on the features of sequences, with the class of each.
func (s *Store) each(ctx context.Context, all []key, class func(key) int, take func([]float32, []int) error) error {
	const some = 256
	f := s.state.About.Features
	rows := make([]float32, min(some, len(all))*f)
	for part := range slices.Chunk(all, some) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		labels := make([]int, len(part))
		for i, k := range part {
			e := s.entries[k].Entry
			if err := s.Features(&e, rows[i*f:(i+1)*f]); err != nil {
				return err
			}
			labels[i] = class(k)
		}
		if err := take(rows[:len(part)*f], labels); err != nil {
			return err
		}
	}
	return nil
}

// fewestGroups have their features kept, however many sequences they have.
const fewestGroups = 8

// Sample are examples, ascending, that choose the regularisation where features are
// given up: whole groups, at most so many examples, by a hash of what they are. So more
// labels take some away, and never one back whose features are gone.
func (s *Store) Sample(examples []Example, most int) []int {
	type part struct {
		from, to int
		hash     uint64
	}
	var parts []part
	for i := range examples {
		if i == 0 || examples[i].Group != examples[i-1].Group {
			e := &examples[i].Entry
			text, _ := json.Marshal([]any{e.Stream, e.In, e.Seq, e.Row})
			sum := sha256.Sum256(text)
			parts = append(parts, part{i, i, binary.LittleEndian.Uint64(sum[:])})
		}
		parts[len(parts)-1].to = i + 1
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.hash, b.hash) })
	var sample []int
	for n, p := range parts {
		if n >= fewestGroups && len(sample)+p.to-p.from > most {
			break
		}
		if s.Summed(examples[p.from:p.to]) {
			continue
		}
		for i := p.from; i < p.to; i++ {
			sample = append(sample, i)
		}
	}
	slices.Sort(sample)
	return sample
}

// Compacted is what Compact did.
type Compacted struct {
	Sequences int   `json:"sequences"` // whose features were given up now
	Groups    int   `json:"groups"`    // with sums, in all
	Bytes     int64 `json:"bytes"`     // of the features
}

// Compact gives up the features of examples for their sums, in groups of a site and of
// the people who have said what they are: where the sums of a group are smaller. keep
// are examples, by their places, whose features stay. Where ctx ends it, the groups that it
// has written stay, and nothing is lost.
func (s *Store) Compact(ctx context.Context, examples []Example, site func(stream string) string, keep []int) (Compacted, error) {
	did := Compacted{}
	if lacking, of := s.lacking(examples); len(lacking) > 0 {
		return did, fmt.Errorf("learn: %d sequences are of another class than before: %s: %w", len(lacking), strings.Join(of[:min(3, len(of))], "; "), ErrGone)
	}
	fresh := map[*group][]int{}
	f := s.state.About.Features
	if err := s.regroup(ctx, examples, site, fresh); err != nil {
		return did, err
	}
	for g, some := range fresh {
		if s.worth(g, len(some)) {
			if err := s.addUp(ctx, g, examples, some); err != nil {
				return did, err
			}
		}
	}
	stay := map[key]bool{}
	for _, i := range keep {
		stay[keyOf(&examples[i].Entry)] = true
	}
	drop := map[key]bool{}
	for _, g := range s.groups {
		for k := range g.members {
			if !stay[k] && s.entries[k].segment != "" {
				drop[k] = true
			}
		}
	}
	did = Compacted{len(drop), len(s.groups), 4 * int64(f) * int64(len(drop))}
	return did, s.drop(drop)
}

// worth reports whether a group of so many more sequences has sums that are smaller than
// its features.
func (s *Store) worth(g *group, more int) bool {
	f := s.state.About.Features
	return g.path != "" || 4*int64(f)*int64(more) > readout.SumsBytes(f, len(g.head.Classes))
}

// leavers are the entries that leave a group and whose features are there; those that stay are
// noted in members.
func (s *Store) leavers(g *group, now map[key]*Example, members map[key]bool) (gone []key) {
	for k, c := range g.members {
		x, here := now[k], s.entries[k].segment != ""
		if x != nil && x.Class == g.head.Classes[c] && (!here || x.Who == g.head.Who) {
			members[k] = true
		} else if here {
			gone = append(gone, k)
		}
	}
	return gone
}

// regroup says which examples are of which group: one that is there, or a new one. Those
// whose class has changed leave their group, and where their features are there, those of
// which other people speak now.
func (s *Store) regroup(ctx context.Context, examples []Example, site func(stream string) string, fresh map[*group][]int) error {
	now := map[key]*Example{}
	for i := range examples {
		now[keyOf(&examples[i].Entry)] = &examples[i]
	}
	member := map[key]bool{}
	for _, g := range s.groups {
		gone := s.leavers(g, now, member)
		if len(gone) == 0 {
			continue
		}
		if err := s.rewrite(g, func(next *group, sums *readout.Sums) (*readout.Sums, error) {
			for _, k := range gone {
				delete(next.members, k)
			}
			return sums, s.each(ctx, gone, func(k key) int { return g.members[k] }, sums.Remove)
		}); err != nil {
			return err
		}
	}
	known := map[[2]string]*group{}
	for _, g := range s.groups {
		known[[2]string{g.head.Site, g.head.Who}] = g
	}
	for i := range examples {
		x := &examples[i]
		if member[keyOf(&x.Entry)] {
			continue
		}
		name := [2]string{site(x.Stream), x.Who}
		g := known[name]
		if g == nil {
			g = &group{head: groupHead{Site: name[0], Who: name[1]}, members: map[key]int{}}
			known[name] = g
		}
		fresh[g] = append(fresh[g], i)
	}
	return nil
}

// addUp adds examples to a group.
func (s *Store) addUp(ctx context.Context, g *group, examples []Example, some []int) error {
	return s.rewrite(g, func(next *group, old *readout.Sums) (*readout.Sums, error) {
		var all []key
		for _, i := range some {
			x := &examples[i]
			c := slices.Index(next.head.Classes, x.Class)
			if c < 0 {
				c = len(next.head.Classes)
				next.head.Classes = append(next.head.Classes, x.Class)
			}
			next.members[keyOf(&x.Entry)] = c
			all = append(all, keyOf(&x.Entry))
		}
		sums, err := readout.NewSums(s.state.About.Features, len(next.head.Classes))
		if err == nil && old != nil {
			same := make([]int, old.Classes())
			for c := range same {
				same[c] = c
			}
			err = sums.Merge(old, same)
		}
		if err != nil {
			return nil, err
		}
		return sums, s.each(ctx, all, func(k key) int { return next.members[k] }, sums.Add)
	})
}

// rewrite changes a group, whose sums are nil where it is new. The file before is
// removed when the next one is there; if that fails, the group is as it was.
func (s *Store) rewrite(g *group, change func(next *group, sums *readout.Sums) (*readout.Sums, error)) error {
	old, before := g.path, (*readout.Sums)(nil)
	if old != "" {
		var err error
		if before, err = g.sums(s.state.About.Features); err != nil {
			return err
		}
	}
	next := &group{head: g.head, members: maps.Clone(g.members)}
	next.head.Classes = slices.Clone(g.head.Classes)
	sums, err := change(next, before)
	if err != nil {
		return err
	}
	next.head.Labels = s.state.Through.Labels
	var entries []Entry
	for k := range next.members {
		entries = append(entries, s.entries[k].Entry)
	}
	sortEntries(entries)
	s.sumFiles++
	if err := next.write(s.dir, s.sumFiles, entries, sums); err != nil {
		return err
	}
	*g = *next
	if old == "" {
		s.groups = append(s.groups, g)
		return nil
	}
	if err := os.Remove(old); err != nil {
		return fmt.Errorf("learn: %w", err)
	}
	return nil
}

// copyOthers writes what segments hold besides some entries into a new segment.
func (s *Store) copyOthers(segments map[string]bool, some map[key]bool) (*segmentWriter, error) {
	w, err := s.next()
	if err != nil {
		return nil, err
	}
	row := make([]float32, s.state.About.Features)
	for k, e := range s.entries {
		if !segments[e.segment] || some[k] {
			continue
		}
		if err = s.Features(&e.Entry, row); err == nil {
			err = w.add(e.Entry, row)
		}
		if err != nil {
			w.abort()
			return nil, err
		}
	}
	return w, w.close()
}

// drop gives features up that are in sums: the segments that have some of them are
// written again without, and then removed.
func (s *Store) drop(some map[key]bool) error {
	if err := s.flush(); err != nil {
		return err
	}
	old := map[string]bool{}
	for k := range some {
		old[s.entries[k].segment] = true
	}
	if len(old) == 0 {
		return nil
	}
	w, err := s.copyOthers(old, some)
	if err != nil {
		return err
	}
	for k := range some {
		s.entries[k] = stored{Entry: s.entries[k].Entry}
	}
	for _, e := range w.entries {
		s.entries[keyOf(&e.Entry)] = e
	}
	for path := range old {
		if f := s.open[path]; f != nil {
			f.Close()
			delete(s.open, path)
		}
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("learn: %w", err)
		}
	}
	return durable.SyncFolder(s.dir)
}

// next begins the next segment.
func (s *Store) next() (*segmentWriter, error) {
	s.segments++
	return newSegment(filepath.Join(s.dir, fmt.Sprintf(segmentName, s.segments)), s.state.About.Features)
}
