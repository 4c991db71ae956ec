package service

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Plan describes a new service.
type Plan struct {
	Name    string   // empty: eusn-stream, eusn-stream-gateway or eusn-stream-alarms, by Args
	Account string   // empty: a virtual account of the service, NT SERVICE\Name
	Args    []string // run, gateway or alarms run, with flags
}

// Report is the state of a service.
type Report struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	Process  uint32 `json:"process,omitempty"`
	ExitCode uint32 `json:"exit_code"`
	Command  string `json:"command"`
	Account  string `json:"account"`
	Folder   string `json:"folder"`
	Log      string `json:"log"`
}

// Running is the State of a working service in a Report.
const Running = "running"

var (
	goodName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$`)
	commands = map[string]string{"run": "eusn-stream", "gateway": "eusn-stream-gateway", "alarms run": "eusn-stream-alarms"}
	paths    = []string{"-c", "--config", "--model", "--dir", "--outbox"}
)

// Complete checks a plan and fills empty fields.
func (p Plan) Complete() (Plan, error) {
	if len(p.Args) == 0 {
		return p, errors.New("no command for the service: give run, gateway or alarms run, with its flags, after --")
	}
	command := p.Args[0]
	if command == "alarms" && len(p.Args) > 1 {
		command = strings.Join(p.Args[:2], " ")
	}
	usual, ok := commands[command]
	if !ok {
		return p, fmt.Errorf("%q cannot be a service: want run, gateway or alarms run", command)
	}
	if p.Name == "" {
		p.Name = usual
	}
	if !goodName.MatchString(p.Name) {
		return p, fmt.Errorf("service name %q: want letters, digits, dots, dashes and underscores, at most 80", p.Name)
	}
	for i, arg := range p.Args {
		flag, value, joined := strings.Cut(arg, "=")
		if !joined && i+1 < len(p.Args) {
			value = p.Args[i+1]
		}
		if slices.Contains(paths, flag) && !filepath.IsAbs(value) {
			return p, fmt.Errorf("%s %s: want an absolute path, because a service does not start in this folder", flag, value)
		}
	}
	if p.Account == "" {
		p.Account = `NT SERVICE\` + p.Name
	}
	return p, nil
}
