package lint

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

const (
	serviceDir    = rootfsName + "/usr/local/etc/containers/"
	containersDir = "/usr/local/lib/containers"
)

var serviceRules = []Rule{
	{
		ID: "service-invalid", Severity: Error, Refuses: []Step{StepCatalogue},
		Effect: "the node logs that it skips the service, which never starts (all versions)",
		tree: func(s *scope) {
			for _, v := range s.tree.services {
				if v.err != nil {
					s.found(v.entry.name, "%v", v.err)
				}
			}
		},
	},
	{
		ID: "service-not-read", Severity: Warning,
		Effect: "Talos reads regular files called *.yaml in /usr/local/etc/containers: the service never starts (all versions)",
		tree: func(s *scope) {
			for name, e := range s.tree.files {
				below, ok := strings.CutPrefix(name, serviceDir)
				if ok && e.isFile() && !strings.Contains(below, "/") && path.Ext(below) == ".yml" {
					s.found(e.name, "the file is not called *.yaml")
				}
			}
		},
	},
	{
		ID: "service-rootfs-missing", Severity: Error,
		Effect: "the service's container has no file system: it fails to start, again and again (all versions)",
		tree: func(s *scope) {
			for _, v := range s.tree.services {
				if v.err == nil && s.tree.at(path.Join(containersDir, v.spec.Name)) == nil {
					s.found(v.entry.name, "there is no %s/%s", containersDir, v.spec.Name)
				}
			}
		},
	},
	{
		ID: "service-entrypoint-missing", Severity: Warning,
		Effect: "the service's container fails to start unless a mount brings the program (all versions)",
		tree: func(s *scope) {
			for _, v := range s.tree.services {
				root := path.Join(containersDir, v.spec.Name)
				if v.err == nil && s.tree.at(root) != nil && s.tree.at(path.Join(root, v.spec.Container.Entrypoint)) == nil && !v.mounted() {
					s.found(v.entry.name, "there is no %s in %s", v.spec.Container.Entrypoint, root)
				}
			}
		},
	},
	{
		ID: "service-twice", Severity: Error,
		Effect: "of two services of one name only one runs (all versions)",
		tree: func(s *scope) {
			seen := make(map[string]string)

			for _, v := range s.tree.services {
				if other, ok := seen[v.spec.Name]; ok && v.err == nil {
					s.found(v.entry.name, "%s describes %q too", other, v.spec.Name)
				}

				seen[v.spec.Name] = v.entry.name
			}
		},
	},
}

// service is one file that describes a service.
type service struct {
	entry *entry
	err   error
	spec  serviceSpec
}

// serviceSpec is what Talos validates of a service (pkg/machinery/extensions/services), without the types
// of the OCI runtime that the rest of it needs.
type serviceSpec struct {
	Name      string `yaml:"name"`
	Container struct {
		Entrypoint string `yaml:"entrypoint"`
		Mounts     []struct {
			Destination string `yaml:"destination"`
		} `yaml:"mounts"`
	} `yaml:"container"`
	Depends []map[string]any `yaml:"depends"`
	Restart string           `yaml:"restart"`
}

var serviceName = regexp.MustCompile(`^[-_a-z0-9]+$`)

func readServices(t *tree) []service {
	var services []service

	for name, e := range t.files {
		if path.Dir(name)+"/" == serviceDir && strings.HasSuffix(name, ".yaml") && e.isFile() {
			services = append(services, parseService(e))
		}
	}

	slices.SortFunc(services, func(a, b service) int { return strings.Compare(a.entry.path, b.entry.path) })

	return services
}

func parseService(e *entry) (v service) {
	v.entry = e

	if e.data == nil {
		v.err = fmt.Errorf("the file has more than %d bytes", maxText)

		return v
	}

	defer recoverAs(&v.err)

	if v.err = yaml.Unmarshal(e.data, &v.spec); v.err == nil {
		v.err = v.spec.validate()
	}

	return v
}

func (spec *serviceSpec) validate() error {
	switch {
	case !serviceName.MatchString(spec.Name):
		return fmt.Errorf("the name %q has more than lower case letters, digits, - and _", spec.Name)
	case spec.Container.Entrypoint == "":
		return errors.New("the container has no entrypoint")
	case !slices.Contains([]string{"always", "never", "untilSuccess"}, spec.Restart):
		return fmt.Errorf("restart is %q, none of always, never, untilSuccess", spec.Restart)
	}

	for _, dependency := range spec.Depends {
		if len(dependency) != 1 {
			return errors.New("a dependency has to have exactly one key")
		}

		for key, value := range dependency {
			switch key {
			case "service", "network", "time", "configuration":
			case "path":
				if text, _ := value.(string); !path.IsAbs(text) {
					return fmt.Errorf("the dependency's path %q is not absolute", value)
				}
			default:
				return fmt.Errorf("a dependency cannot be on %q", key)
			}
		}
	}

	return nil
}

// mounted reports whether a mount may bring the entrypoint.
func (v *service) mounted() bool {
	for _, mount := range v.spec.Container.Mounts {
		if strings.HasPrefix(path.Join("/", v.spec.Container.Entrypoint), path.Join("/", mount.Destination)) {
			return true
		}
	}

	return false
}
