package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/docker/cli/cli/config"
	"github.com/docker/cli/cli/config/configfile"
	"github.com/docker/cli/cli/config/types"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// credentialPlaces names the files of credentialFiles.
const credentialPlaces = "$REGISTRY_AUTH_FILE, $XDG_RUNTIME_DIR/containers/auth.json, ~/.config/containers/auth.json and ~/.docker/config.json ($DOCKER_CONFIG)"

// credentialFiles is a keychain of the files that docker, podman, skopeo and crane keep, and of the
// credential helpers that these name. Unlike the library's, it looks into all of them: an empty
// file of docker's does not hide podman's.
type credentialFiles struct {
	env func(string) string
}

var _ authn.Keychain = credentialFiles{}

// files returns where to look, the most explicit place first.
func (c credentialFiles) files() []string {
	var files []string

	add := func(dir string, elements ...string) {
		if dir != "" {
			files = append(files, filepath.Join(append([]string{dir}, elements...)...))
		}
	}

	add(c.env("REGISTRY_AUTH_FILE"))
	add(c.env("XDG_RUNTIME_DIR"), "containers", "auth.json")

	home := c.env("HOME")

	if configs := c.env("XDG_CONFIG_HOME"); configs != "" {
		add(configs, "containers", "auth.json")
	} else {
		add(home, ".config", "containers", "auth.json")
	}

	if docker := c.env("DOCKER_CONFIG"); docker != "" {
		add(docker, "config.json")
	} else {
		add(home, ".docker", "config.json")
	}

	return files
}

// Resolve returns the credentials of a repository, or of the longest path above it that has any.
func (c credentialFiles) Resolve(target authn.Resource) (authn.Authenticator, error) {
	for _, file := range c.files() {
		settings, err := readCredentials(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}

		if err != nil {
			return nil, fmt.Errorf("reading credentials from %s: %w", file, err)
		}

		for _, key := range credentialKeys(target) {
			if !strings.Contains(key, "/") {
				forRegistry(settings)
			}

			found, err := settings.GetAuthConfig(key)
			if err != nil {
				return nil, fmt.Errorf("asking for the credentials of %s that %s names: %w", key, file, err)
			}

			found.ServerAddress = ""
			if found != (types.AuthConfig{}) {
				return authn.FromConfig(authn.AuthConfig{
					Username: found.Username, Password: found.Password, Auth: found.Auth,
					IdentityToken: found.IdentityToken, RegistryToken: found.RegistryToken,
				}), nil
			}
		}
	}

	return authn.Anonymous, nil
}

func readCredentials(name string) (*configfile.ConfigFile, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()

	return config.LoadFromReader(file)
}

// forRegistry leaves out podman's entries for parts of a registry, which docker's library would take
// for the whole.
func forRegistry(settings *configfile.ConfigFile) {
	for key := range settings.AuthConfigs {
		if strings.Contains(key, "/") && !strings.Contains(key, "://") {
			delete(settings.AuthConfigs, key)
		}
	}
}

// credentialKeys are the names that a target may have in such a file.
func credentialKeys(target authn.Resource) []string {
	var keys []string

	for key := target.String(); strings.Contains(key, "/"); key = key[:strings.LastIndex(key, "/")] {
		keys = append(keys, key)
	}

	if target.RegistryStr() == name.DefaultRegistry {
		return append(keys, authn.DefaultAuthKey, "docker.io")
	}

	return append(keys, target.RegistryStr())
}
