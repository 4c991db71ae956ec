package imports

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// format is a file format supported by Import.
type format struct {
	name      string
	suffix    string // optionally followed by .gz
	read      func(*source, Options) (*part, error)
	labels    func(*source, *part) error // reads the labels from a separate file, if the format has one
	labelPath func(string) string        // path of the label file
}

// formats are in the order of preference for a data set in several formats.
var formats = []*format{
	{name: "ts", suffix: ".ts", read: plain(readTS)},
	{name: "tsv", suffix: ".tsv", read: plain(readTSV)},
	{name: "arff", suffix: ".arff", read: plain(readARFF)},
	{name: "tokens", suffix: ".txt", read: readTokens},
	{name: "idx", suffix: "idx3-ubyte", read: plain(readIDXImages), labels: readIDXLabels, labelPath: idxLabelPath},
}

func plain(read func(*source) (*part, error)) func(*source, Options) (*part, error) {
	return func(s *source, _ Options) (*part, error) { return read(s) }
}

// found are the files of a data set in one format.
type found struct {
	name        string
	format      *format
	train, test string
}

// Files returns the files that Import reads.
func (o Options) Files() ([]string, error) {
	f, err := o.findFiles()
	if err != nil {
		return nil, err
	}
	var all []string
	for _, path := range []string{f.train, f.test} {
		if path == "" {
			continue
		}
		if all = append(all, path); f.format.labelPath != nil {
			all = append(all, f.format.labelPath(path))
		}
	}
	return all, nil
}

// findFiles selects the files of an import.
func (o Options) findFiles() (found, error) {
	explicit := o.Train != "" || o.Test != ""
	switch {
	case explicit && o.Dir != "":
		return found{}, fmt.Errorf("offline: import: name either a directory or files, not both")
	case explicit:
		return o.explicitFiles()
	case o.Dir == "":
		return found{}, errors.New("offline: import: name a directory, or a train or test file")
	}
	all, err := searchDir(o.Dir)
	if err != nil {
		return found{}, err
	}
	return chooseSet(all, o.Dir, o.Name)
}

func (o Options) explicitFiles() (found, error) {
	f := found{name: o.Name, train: o.Train, test: o.Test}
	for _, path := range []string{o.Train, o.Test} {
		if path == "" {
			continue
		}
		format := formatOf(path)
		if format == nil {
			return f, fmt.Errorf("offline: %s: unknown type of file, want one of %s (or the same with .gz)", path, suffixes())
		}
		if f.format != nil && f.format != format {
			return f, fmt.Errorf("offline: %s and %s have different formats, want one format", o.Train, o.Test)
		}
		f.format = format
		if f.name == "" {
			if f.name, _ = splitName(path); format.name == "idx" {
				f.name, _ = idxName(path)
			}
		}
	}
	return f, nil
}

// formatOf returns the format for a file's name, nil if there is none.
func formatOf(path string) *format {
	name := strings.TrimSuffix(strings.ToLower(path), ".gz")
	for _, f := range formats {
		if strings.HasSuffix(name, f.suffix) {
			return f
		}
	}
	return nil
}

func suffixes() string {
	var all []string
	for _, f := range formats {
		all = append(all, f.suffix)
	}
	return strings.Join(all, ", ")
}

// BaseName returns the name of a file without its folder, .gz and the preceding
// extension: Line1.2_TRAIN of Line1.2_TRAIN.ts.gz.
func BaseName(path string) string {
	base := filepath.Base(path)
	if low := strings.ToLower(base); strings.HasSuffix(low, ".gz") {
		base = base[:len(base)-len(".gz")]
	}
	if name := strings.TrimSuffix(base, filepath.Ext(base)); name != "" {
		return name
	}
	return base
}

// splitName splits Adiac_TRAIN.ts.gz into Adiac and train. Any other name gives the name
// without extension, and no split.
func splitName(path string) (name string, split archive.Split) {
	base := BaseName(path)
	for _, s := range splits {
		if cut := len(base) - len(s) - 1; cut > 0 && strings.EqualFold(base[cut:], "_"+string(s)) {
			return base[:cut], s
		}
	}
	return base, ""
}

// idxName parses MNIST's names: train-images-idx3-ubyte and t10k-images-idx3-ubyte (or
// test-...), in a folder with the data set's name.
func idxName(path string) (name string, split archive.Split) {
	folder, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return "", ""
	}
	prefix, _, _ := strings.Cut(strings.ToLower(filepath.Base(path)), "-")
	switch prefix {
	case "train":
		split = archive.Train
	case "t10k", "test":
		split = archive.Test
	}
	return filepath.Base(folder), split
}

// searchDir lists the data sets in dir and up to two folders deep.
func searchDir(dir string) ([]found, error) {
	if st, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("offline: %w", err)
	} else if !st.IsDir() {
		return nil, fmt.Errorf("offline: %s is a file: specify it as the train or test file, or specify its directory", dir)
	}
	sets := map[string]*found{} // by folder, format and name
	// With a trailing separator, a link to a folder is followed.
	err := filepath.WalkDir(dir+string(filepath.Separator), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if e.IsDir() {
			if rel != "." && strings.Count(rel, string(filepath.Separator)) >= 2 {
				return fs.SkipDir
			}
			return nil
		}
		return addFile(sets, path)
	})
	if err != nil {
		return nil, fmt.Errorf("offline: %w", err)
	}
	all := make([]found, 0, len(sets))
	for _, f := range sets {
		all = append(all, *f)
	}
	slices.SortFunc(all, func(a, b found) int {
		return strings.Compare(strings.ToLower(a.name)+"\x00"+a.path(), strings.ToLower(b.name)+"\x00"+b.path())
	})
	return all, nil
}

// addFile adds path if it is a part of a data set.
func addFile(sets map[string]*found, path string) error {
	f := formatOf(path)
	if f == nil {
		return nil
	}
	name, split := splitName(path)
	if f.name == "idx" {
		name, split = idxName(path)
	}
	if split == "" {
		return nil
	}
	key := strings.Join([]string{filepath.Dir(path), f.name, name}, "\x00")
	if sets[key] == nil {
		sets[key] = &found{name: name, format: f}
	}
	place := &sets[key].train
	if split == archive.Test {
		place = &sets[key].test
	}
	if *place != "" {
		return fmt.Errorf("%s and %s are the same part of %s: remove one, or specify the files to import", *place, path, name)
	}
	*place = path
	return nil
}

func (f found) path() string {
	if f.train != "" {
		return f.train
	}
	return f.test
}

// chooseSet selects the data set called name, or the only one.
func chooseSet(all []found, dir, name string) (found, error) {
	if len(all) == 0 {
		return found{}, fmt.Errorf("offline: no data set in %s: want files called NAME_TRAIN and NAME_TEST ending in one of %s (or the same with .gz)", dir, suffixes())
	}
	var names []string
	for _, f := range all {
		if !slices.Contains(names, f.name) {
			names = append(names, f.name)
		}
	}
	if name == "" && len(names) > 1 {
		return found{}, fmt.Errorf("offline: %s holds %d data sets, specify one: %s", dir, len(names), listNames(names, 8))
	}
	var match []found
	for _, f := range all {
		if name == "" || strings.EqualFold(f.name, name) {
			match = append(match, f)
		}
	}
	if len(match) == 0 {
		return found{}, fmt.Errorf("offline: no data set %q in %s; the nearest names: %s", name, dir, listNames(nearestNames(names, name), 5))
	}
	return preferredFormat(match)
}

// preferredFormat selects the first format of a set; if two folders contain the same set,
// the caller must choose.
func preferredFormat(match []found) (found, error) {
	for _, f := range match[1:] {
		if filepath.Dir(f.path()) != filepath.Dir(match[0].path()) {
			return found{}, fmt.Errorf("offline: data set %s exists twice, in %s and %s: specify the directory of one", f.name, match[0].path(), f.path())
		}
	}
	return slices.MinFunc(match, func(a, b found) int {
		return slices.Index(formats, a.format) - slices.Index(formats, b.format)
	}), nil
}

func listNames(names []string, limit int) string {
	if len(names) <= limit {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, ... (%d in all)", strings.Join(names[:limit], ", "), len(names))
}

// nearestNames orders names by their distance to want.
func nearestNames(names []string, want string) []string {
	want = strings.ToLower(want)
	distance := make(map[string]int, len(names))
	for _, n := range names {
		low := strings.ToLower(n)
		distance[n] = levenshtein.ComputeDistance(low, want)
		if strings.HasPrefix(low, want) || strings.HasPrefix(want, low) {
			distance[n] = 0
		}
	}
	out := slices.Clone(names)
	slices.SortStableFunc(out, func(a, b string) int { return distance[a] - distance[b] })
	return out
}

// Datasets lists the names of the data sets in dir and up to two folders deep, as Import
// would find them, in the order of their names.
func Datasets(dir string) ([]string, error) {
	all, err := searchDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range all {
		if !slices.Contains(names, f.name) {
			names = append(names, f.name)
		}
	}
	return names, nil
}
