package config

import (
	"slices"
	"strings"
)

// basicKeys are the keys that most installations set.
var basicKeys = []string{
	"job", "model", "nats.url", "server.sync", "input.subject", "input.max_age", "output.keep", "stage.idle",
	"gateway.mqtt", "gateway.http", "alarms.rules", "metrics.listen",
}

const basicHeader = `# eusn-stream: configuration (eusn-stream run reads eusn-stream.yaml, or -c FILE).
#
# The keys that most installations set, with their defaults. All keys: eusn-stream config init
# --full FILE, or docs/configuration.md. Check a file with: eusn-stream config check FILE

`

// BasicYAML returns the part of DefaultYAML with the keys that most installations set.
func BasicYAML() []byte {
	out, group, block := basicHeader, "", ""
	header := "" // of the group, until a key of the group is written
	for line := range strings.Lines(string(DefaultYAML)) {
		text := strings.TrimSpace(line)
		if text == "" {
			block = ""
			continue
		}
		block += line
		if strings.HasPrefix(text, "#") {
			continue
		}
		name, value, _ := strings.Cut(text, ":")
		indented := line[0] == ' '
		switch {
		case !indented && value == "":
			group, header = name+".", block
		case !indented && slices.Contains(basicKeys, name):
			out += block + "\n"
		case strings.HasPrefix(line, "  ") && line[2] != ' ' && slices.Contains(basicKeys, group+name):
			out += header + block + "\n"
			header = ""
		}
		block = ""
	}
	return []byte(strings.TrimSuffix(out, "\n"))
}
