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
	"github.com/eusn-stream/eusn-stream/internal/exact"
)

// SumExamples returns the sums of examples; classes gives the class order. Members of a group that
// are not among the examples, or have another class, are subtracted; the result has the same bits
// as sums without these members.
func (s *Store) SumExamples(ctx context.Context, examples []Example, classes []string) (*exact.Sums, error) {
	if lacking, groups := s.lackingFeatures(examples); len(lacking) > 0 {
		return nil, fmt.Errorf("learn: %d sequences are to be left out, or are of another class than before: %s: %w", len(lacking), strings.Join(groups[:min(3, len(groups))], "; "), ErrGone)
	}
	class := classOf(examples)
	total, err := exact.NewSums(s.state.Origin.Features, len(classes))
	if err != nil {
		return nil, err
	}
	in := map[key]bool{}
	for _, g := range s.groups {
		var removed []key
		same := 0
		for k, c := range g.members {
			if now, included := class[k]; included && now == g.head.Classes[c] {
				same++
			} else {
				removed = append(removed, k)
			}
		}
		if same == 0 {
			continue
		}
		sums, err := g.readSums(s.state.Origin.Features)
		if err != nil {
			return nil, err
		}
		if err := s.eachFeatures(ctx, removed, func(k key) int { return g.members[k] }, sums.Remove); err != nil {
			return nil, err
		}
		number := make([]int, len(g.head.Classes))
		for c, name := range g.head.Classes {
			number[c] = slices.Index(classes, name) // -1: no member of this class is left
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
	return total, s.eachFeatures(ctx, rest, func(k key) int { return slices.Index(classes, class[k]) }, total.Add)
}

// eachFeatures passes the features of sequences to take, with the class of each.
func (s *Store) eachFeatures(ctx context.Context, all []key, class func(key) int, take func([]float32, []int) error) error {
	const chunkSize = 256
	f := s.state.Origin.Features
	rows := make([]float32, min(chunkSize, len(all))*f)
	for part := range slices.Chunk(all, chunkSize) {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		labels := make([]int, len(part))
		for i, k := range part {
			e := s.entries[k].Entry
			if err := s.ReadFeatures(&e, rows[i*f:(i+1)*f]); err != nil {
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

// fewestGroups is the number of groups that are always sampled, however many sequences they have.
const fewestGroups = 8

// SampleExamples returns the ascending indexes of the examples that select the regularization while
// other features are dropped: whole groups, at most the given number of examples, by a hash of
// their identity. Additional labels can thus remove examples from the sample, but never restore an
// example whose features were dropped.
func (s *Store) SampleExamples(examples []Example, most int) []int {
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
		if s.HasSummed(examples[p.from:p.to]) {
			continue
		}
		for i := p.from; i < p.to; i++ {
			sample = append(sample, i)
		}
	}
	slices.Sort(sample)
	return sample
}

// CompactResult is the result of Compact.
type CompactResult struct {
	Sequences int   `json:"sequences"` // features dropped now
	Groups    int   `json:"groups"`    // with sums, in total
	Bytes     int64 `json:"bytes"`     // of the dropped features
}

// Compact replaces features of examples by their sums if the sums are smaller. A group has the
// examples of a site and of the same label authors. keep has the indexes of examples whose features
// stay. If ctx ends Compact, finished groups stay, and no data is lost.
func (s *Store) Compact(ctx context.Context, examples []Example, site func(stream string) string, keep []int) (CompactResult, error) {
	result := CompactResult{}
	if lacking, groups := s.lackingFeatures(examples); len(lacking) > 0 {
		return result, fmt.Errorf("learn: %d sequences are of another class than before: %s: %w", len(lacking), strings.Join(groups[:min(3, len(groups))], "; "), ErrGone)
	}
	fresh := map[*group][]int{}
	f := s.state.Origin.Features
	if err := s.regroupExamples(ctx, examples, site, fresh); err != nil {
		return result, err
	}
	for g, indexes := range fresh {
		if s.isWorthSumming(g, len(indexes)) {
			if err := s.addToGroup(ctx, g, examples, indexes); err != nil {
				return result, err
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
	result = CompactResult{len(drop), len(s.groups), 4 * int64(f) * int64(len(drop))}
	return result, s.dropFeatures(drop)
}

// isWorthSumming reports whether a group with additional sequences has sums that are smaller than
// its features.
func (s *Store) isWorthSumming(g *group, more int) bool {
	f := s.state.Origin.Features
	return g.path != "" || 4*int64(f)*int64(more) > exact.SumsBytes(f, len(g.head.Classes))
}

// leavingEntries returns the entries with features that leave a group; staying entries are added to
// members.
func (s *Store) leavingEntries(g *group, now map[key]*Example, members map[key]bool) (gone []key) {
	for k, c := range g.members {
		x, hasFeatures := now[k], s.entries[k].segment != ""
		if x != nil && x.Class == g.head.Classes[c] && (!hasFeatures || x.Who == g.head.Who) {
			members[k] = true
		} else if hasFeatures {
			gone = append(gone, k)
		}
	}
	return gone
}

// regroupExamples assigns examples to existing or new groups. Examples with a changed class leave
// their group; so do examples with features and changed label authors.
func (s *Store) regroupExamples(ctx context.Context, examples []Example, site func(stream string) string, fresh map[*group][]int) error {
	now := map[key]*Example{}
	for i := range examples {
		now[keyOf(&examples[i].Entry)] = &examples[i]
	}
	member := map[key]bool{}
	for _, g := range s.groups {
		gone := s.leavingEntries(g, now, member)
		if len(gone) == 0 {
			continue
		}
		if err := s.rewriteGroup(g, func(next *group, sums *exact.Sums) (*exact.Sums, error) {
			for _, k := range gone {
				delete(next.members, k)
			}
			return sums, s.eachFeatures(ctx, gone, func(k key) int { return g.members[k] }, sums.Remove)
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

// addToGroup adds examples to a group.
func (s *Store) addToGroup(ctx context.Context, g *group, examples []Example, indexes []int) error {
	return s.rewriteGroup(g, func(next *group, old *exact.Sums) (*exact.Sums, error) {
		var all []key
		for _, i := range indexes {
			x := &examples[i]
			c := slices.Index(next.head.Classes, x.Class)
			if c < 0 {
				c = len(next.head.Classes)
				next.head.Classes = append(next.head.Classes, x.Class)
			}
			next.members[keyOf(&x.Entry)] = c
			all = append(all, keyOf(&x.Entry))
		}
		sums, err := exact.NewSums(s.state.Origin.Features, len(next.head.Classes))
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
		return sums, s.eachFeatures(ctx, all, func(k key) int { return next.members[k] }, sums.Add)
	})
}

// rewriteGroup changes a group; sums is nil for a new group. The old file is removed after the new
// file exists; on an error the group is unchanged.
func (s *Store) rewriteGroup(g *group, change func(next *group, sums *exact.Sums) (*exact.Sums, error)) error {
	old, before := g.path, (*exact.Sums)(nil)
	if old != "" {
		var err error
		if before, err = g.readSums(s.state.Origin.Features); err != nil {
			return err
		}
	}
	next := &group{head: g.head, members: maps.Clone(g.members)}
	next.head.Classes = slices.Clone(g.head.Classes)
	sums, err := change(next, before)
	if err != nil {
		return err
	}
	next.head.Labels = s.state.Progress.Labels
	var entries []Entry
	for k := range next.members {
		entries = append(entries, s.entries[k].Entry)
	}
	sortEntries(entries)
	s.sumFiles++
	if err := next.writeFile(s.dir, s.sumFiles, entries, sums); err != nil {
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

// copyOthers writes the segments' other entries into a new segment.
func (s *Store) copyOthers(segments map[string]bool, excluded map[key]bool) (*segmentWriter, error) {
	w, err := s.nextSegment()
	if err != nil {
		return nil, err
	}
	row := make([]float32, s.state.Origin.Features)
	for k, e := range s.entries {
		if !segments[e.segment] || excluded[k] {
			continue
		}
		if err = s.ReadFeatures(&e.Entry, row); err == nil {
			err = w.writeEntry(e.Entry, row)
		}
		if err != nil {
			w.abort()
			return nil, err
		}
	}
	return w, w.close()
}

// dropFeatures removes the features of summed sequences: their segments are rewritten without these
// features, and then removed.
func (s *Store) dropFeatures(dropped map[key]bool) error {
	if err := s.closeSegment(); err != nil {
		return err
	}
	old := map[string]bool{}
	for k := range dropped {
		old[s.entries[k].segment] = true
	}
	if len(old) == 0 {
		return nil
	}
	w, err := s.copyOthers(old, dropped)
	if err != nil {
		return err
	}
	for k := range dropped {
		s.entries[k] = storedEntry{Entry: s.entries[k].Entry}
	}
	for _, e := range w.entries {
		s.entries[keyOf(&e.Entry)] = e
	}
	for path := range old {
		if f := s.openFiles[path]; f != nil {
			f.Close()
			delete(s.openFiles, path)
		}
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("learn: %w", err)
		}
	}
	return durable.SyncFolder(s.dir)
}

// nextSegment starts the next segment.
func (s *Store) nextSegment() (*segmentWriter, error) {
	s.segments++
	return newSegment(filepath.Join(s.dir, fmt.Sprintf(segmentName, s.segments)), s.state.Origin.Features)
}
