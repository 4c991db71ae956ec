package configcmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/config"
)

const compareHint = "eusn-stream config init --full reference.yaml, and compare"

// Load loads the configuration from the file at path, the environment, and the named flags. If
// path is empty, the file is eusn-stream.yaml of the current folder, if it exists.
func Load(path string, flags *pflag.FlagSet, names []string) (config.Config, error) {
	var raw []byte
	if _, err := os.Stat(defaultConfigFile); path == "" && err == nil {
		path = defaultConfigFile
	}
	if path != "" {
		var err error
		if raw, err = readConfigFile(path); errors.Is(err, fs.ErrNotExist) {
			return config.Config{}, cli.Fail(cli.ExitConfig, err, "eusn-stream config init "+cli.QuoteForShell(path))
		} else if err != nil {
			return config.Config{}, cli.Fail(cli.ExitConfig, err, compareHint)
		}
	}
	c, err := config.Load(path, raw, flags, names)
	hint := compareHint
	if path == "" { // the error is about a flag or an environment variable
		hint = "eusn-stream config init --full reference.yaml, which describes each key; the flags are in the command's --help"
	}
	return c, cli.Fail(cli.ExitConfig, err, hint)
}

// maxConfig limits the size of a configuration file, far above any valid file: the path may
// lead to another file by mistake.
const maxConfig = 1 << 20

// readConfigFile reads a configuration once and in order, so a pipe is permitted: -c <(envsubst
// <template.yaml). A pipe without a writer is an error at once.
func readConfigFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	pipe := err == nil && info.Mode()&fs.ModeNamedPipe != 0
	if err := cli.NotWhole(path); err != nil && !pipe {
		return nil, err
	}
	open := os.O_RDONLY
	if pipe {
		open |= syscall.O_NONBLOCK
	}
	f, err := os.OpenFile(path, open, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err == nil && pipe && len(raw) == 0 {
		err = fmt.Errorf("%s is a pipe, want a file or a pipe that is written into", path)
	}
	if err == nil && len(raw) > maxConfig {
		err = fmt.Errorf("%s is longer than %d KiB: no configuration file", path, maxConfig>>10)
	}
	return raw, err
}
