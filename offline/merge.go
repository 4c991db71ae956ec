package offline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/eusn-stream/eusn-stream/internal/names"
)

// merges are classes that count as another class: the name of the other class, by the name of each.
type merges map[string]string

// rename replaces the names of merged classes. The result may have a name several times.
func (m merges) rename(classes []string) []string {
	renamed := slices.Clone(classes)
	for i, name := range renamed {
		renamed[i] = cmp.Or(m[name], name)
	}
	return renamed
}

// join returns the classes after merging, in the order of their first names, and the index among
// these for each class. what names the data. Each merged class must exist.
func (m merges) join(classes []string, what string) (joined []string, of []int, err error) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(classes, name) {
			return nil, nil, fmt.Errorf("offline: %s has no class %q, which is to count as %q; it has %s", what, name, m[name], names.Cut(fmt.Sprintf("%q", classes), 200))
		}
	}
	for _, name := range m.rename(classes) {
		at := slices.Index(joined, name)
		if at < 0 {
			at, joined = len(joined), append(joined, name)
		}
		of = append(of, at)
	}
	return joined, of, nil
}

// mergeClasses merges the classes of the data.
func (src *labeledData) mergeClasses(m merges) error {
	if len(m) == 0 {
		return nil
	}
	joined, of, err := m.join(src.classes, src.what)
	if err != nil {
		return err
	}
	src.classes = joined
	switch t := src.sampleSource.(type) {
	case *seriesSource:
		t.class = of
	case *recordingSource:
		t.class = maps.Clone(t.class)
		for label, i := range t.class {
			if i >= 0 {
				t.class[label] = of[i]
			}
		}
	}
	return nil
}
