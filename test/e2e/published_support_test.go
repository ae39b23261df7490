// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"archive/tar"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/helmop/cluster-api-addon-provider-helmop/test/commands"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/environment"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

const (
	// releasedCommit is the earlier version, as long as there is no tag. It is the first one that `make release` can sign
	// and push completely.
	releasedCommit = "3819483c"

	// signingPassword is the password of the key with which the releases are signed.
	signingPassword = "walk"

	// makeTimeout is the timeout of a command. The first build for each of six platforms takes minutes.
	makeTimeout = 45 * time.Minute
)

// prepare creates the folder with the programs that a user has installed.
func (p *published) prepare(s *scenario) {
	bin := filepath.Join(p.work, "bin")
	s.must(os.MkdirAll(bin, 0o755))
	for _, program := range []string{binaries.Kubectl, binaries.Clusterctl} {
		s.must(os.Symlink(s.env.Binaries.Path(program), filepath.Join(bin, program)))
	}
	_, err := testbed.ToolOptions{Root: s.env.Root(), Dir: bin}.Build(s.Context(), "cosign",
		"github.com/sigstore/cosign/v3/cmd/cosign")
	s.must(err)
	s.must(os.MkdirAll(filepath.Join(p.work, "home"), 0o755))
	p.shellIn(s, p.work, "git clone --quiet --no-checkout 'file://"+s.env.Root()+"' checkout")
}

// shell runs commands of a user in the checkout: with an empty home folder, and with the programs of prepare. It
// returns the output.
func (p *published) shell(s *scenario, commands string) string {
	s.Helper()
	return p.shellIn(s, p.checkout, commands)
}

func (p *published) shellIn(s *scenario, folder, commands string) string {
	s.Helper()
	out, err := p.try(s, folder, commands)
	if err != nil {
		s.Fatalf("%s\n%v\n%s", commands, err, out)
	}
	return out
}

// try is shellIn for commands that may fail.
func (p *published) try(s *scenario, folder, commands string) (string, error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), makeTimeout)
	defer cancel()
	// The documentation names the configuration of clusterctl once.
	const config = `clusterctl() { command clusterctl --config out/clusterctl.yaml "$@"; }` + "\n"
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", config+commands)
	cmd.Dir = folder
	cmd.Env = append(p.goEnvironment(s), "HOME="+filepath.Join(p.work, "home"),
		"PATH="+filepath.Join(p.work, "bin")+":"+os.Getenv("PATH"), "KUBECONFIG="+s.env.Management.KubeconfigFile(),
		"CLUSTERCTL_DISABLE_VERSIONCHECK=true", "COSIGN_PASSWORD="+signingPassword, "PLAIN_HTTP=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// files is the folder with the files of the later version.
func (p *published) files() string {
	return filepath.Join(p.checkout, "out", "addon-helmop", laterVersion)
}

// goEnvironment returns the variables with which the go command uses the caches of this machine.
func (p *published) goEnvironment(s *scenario) []string {
	s.Helper()
	var env []string
	for _, variable := range []string{"GOCACHE", "GOMODCACHE", "GOPROXY", "GOSUMDB", "GOTOOLCHAIN"} {
		value, err := exec.CommandContext(s.Context(), "go", "env", variable).Output()
		s.must(err)
		env = append(env, variable+"="+strings.TrimSpace(string(value)))
	}
	return env
}

// documented returns a block of commands, with the names of the test instead of the names in the examples.
func (p *published) documented(s *scenario, page, heading, contains string) string {
	s.Helper()
	return strings.NewReplacer("registry.example.com", p.registry.Host(), "v0.2.0", laterVersion).
		Replace(s.documented(page, heading, contains))
}

// documented returns the block of commands below a heading of a page that contains a text.
func (s *scenario) documented(page, heading, contains string) string {
	s.Helper()
	block, err := commands.Block(s.env.Root(), page, heading, contains)
	s.must(err)
	return block
}

// release makes both versions in the checkout, the later one last.
func (p *published) release(s *scenario) {
	p.shellIn(s, p.work, "cosign generate-key-pair; cosign generate-key-pair --output-key-prefix=other")
	earlier, err := s.commitBefore(releasedCommit)
	s.must(err)
	head, err := s.git("rev-parse", "HEAD")
	s.must(err)
	for _, one := range []struct{ version, commit, platforms string }{
		{earlierVersion, earlier, "PLATFORMS=linux/" + runtime.GOARCH + " CLI_PLATFORMS=linux/" + runtime.GOARCH},
		{laterVersion, head, ""}, // all platforms of releases
	} {
		p.shell(s, "git checkout --quiet --detach "+one.commit)
		p.shell(s, "make release PUSH=1 KEY=../cosign.key IMG="+p.image+" RELEASE_TAG="+one.version+" "+one.platforms)
	}
}

// runPublished runs Pods with the images of both versions.
func (p *published) runPublished(s *scenario) {
	s.Helper()
	images := map[string]string{}
	for _, version := range []string{earlierVersion, laterVersion} {
		images[p.image+":"+version] = p.program(s, version)
	}
	// The next steps need the Pods, too.
	startKubelet(p.whole, s.env, environment.KubeletOptions{Images: images})
}

// program pulls an image for this machine, and returns the path of the manager in it.
func (p *published) program(s *scenario, version string) string {
	s.Helper()
	ref, err := name.ParseReference(p.image+":"+version, name.Insecure)
	s.must(err)
	image, err := remote.Image(ref, remote.WithContext(s.Context()),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
	s.must(err)
	files := mutate.Extract(image)
	defer func() { _ = files.Close() }()
	path := filepath.Join(p.work, "manager-"+version)
	for archive := tar.NewReader(files); ; {
		header, err := archive.Next()
		s.must(err)
		if strings.TrimPrefix(header.Name, "/") != "manager" {
			continue
		}
		file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
		s.must(err)
		_, err = io.Copy(file, archive)
		s.must(err)
		s.must(file.Close())
		return path
	}
}
