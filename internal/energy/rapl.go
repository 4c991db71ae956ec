package energy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Powercap is Linux's folder of RAPL counters.
const Powercap = "/sys/class/powercap"

// maxWatts is more than the power of any processor: a higher power means a reset or invalid
// counter.
const maxWatts = 10e3

// RAPL is the sum of the energy counters of a machine's processor packages. It is not safe for
// concurrent use.
type RAPL struct {
	zones  []zone
	joules float64
	time   time.Time
}

// zone is one counter in microjoules, which overflows to 0 after limit.
type zone struct {
	name, file  string
	limit, last uint64
}

// topZone matches zones outside other zones. Zones with a second number are parts of a package
// and would count twice, like the zones of intel-rapl-mmio, which are the same packages through
// another interface.
var topZone = regexp.MustCompile(`^intel-rapl:[0-9]+$`)

// OpenRAPL finds the packages' counters under root (Powercap, except in tests). Memory outside
// the packages is not counted, and a zone of the whole platform (psys) is skipped, because it
// contains the packages.
func OpenRAPL(root string) (*RAPL, error) {
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("energy: %w", err)
	}
	r := &RAPL{time: time.Now()}
	for _, e := range entries {
		if !topZone.MatchString(e.Name()) {
			continue
		}
		dir := filepath.Join(root, e.Name())
		name, err := os.ReadFile(filepath.Join(dir, "name"))
		if err != nil {
			return nil, fmt.Errorf("energy: %w", err)
		}
		z := zone{name: strings.TrimSpace(string(name)), file: filepath.Join(dir, "energy_uj")}
		if !strings.HasPrefix(z.name, "package-") {
			continue
		}
		if z.limit, err = readCounter(filepath.Join(dir, "max_energy_range_uj")); err != nil {
			return nil, err
		}
		if z.last, err = z.readZone(); err != nil {
			return nil, err
		}
		r.zones = append(r.zones, z)
	}
	if len(r.zones) == 0 {
		return nil, fmt.Errorf("energy: no RAPL counter of a processor package in %s: virtual machines and other systems than Linux have none", root)
	}
	return r, nil
}

// Source returns the names of the counted zones.
func (r *RAPL) Source() string {
	var names []string
	for _, z := range r.zones {
		names = append(names, z.name)
	}
	return "RAPL " + strings.Join(names, ", ")
}

// Joules returns the energy since opening. Call it more often than a counter overflows, which
// takes minutes.
func (r *RAPL) Joules() (float64, error) {
	now := time.Now()
	maximum := maxWatts * (now.Sub(r.time).Seconds() + 1)
	sum := 0.0
	for i := range r.zones {
		z := &r.zones[i]
		v, err := z.readZone()
		if err != nil {
			return 0, err
		}
		increase := v - z.last
		if v < z.last {
			increase = z.limit - z.last + v
		}
		z.last = v
		j := float64(increase) / 1e6
		if j > maximum {
			return 0, fmt.Errorf("energy: %s: %.0f J more after %.3g s: the counter was set back or is none", z.file, j, now.Sub(r.time).Seconds())
		}
		sum += j
	}
	r.time = now
	r.joules += sum
	return r.joules, nil
}

func (z *zone) readZone() (uint64, error) {
	v, err := readCounter(z.file)
	if err == nil && v > z.limit {
		err = fmt.Errorf("energy: %s: %d, which is beyond the counter's end %d", z.file, v, z.limit)
	}
	return v, err
}

// readCounter reads a file with one number.
func readCounter(path string) (uint64, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrPermission) {
		return 0, explainDenied(err, filepath.Dir(filepath.Dir(path)))
	}
	if err != nil {
		return 0, fmt.Errorf("energy: %w", err)
	}
	v, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("energy: %s: %w", path, err)
	}
	return v, nil
}

// explainDenied adds the way to permit reading the counters, which Linux restricts to root,
// because their fine steps can reveal the computations of other programs.
func explainDenied(err error, root string) error {
	return fmt.Errorf("energy: %w; until the next start of the machine this allows it: sudo chmod a+r %s/intel-rapl:*/energy_uj", err, root)
}
