// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/onsi/gomega"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"

	"github.com/helmop/cluster-api-addon-provider-helmop/hack/release/files"
)

// releasePlatforms are the platforms of the command line.
var releasePlatforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64",
	"windows/arm64"}

// programs checks the archives of the command line: each has the licence and a program for its platform.
func (p *published) programs(s *scenario) {
	paths, err := filepath.Glob(filepath.Join(p.files(), "kubectl-helmop_*"))
	s.must(err)
	archives := slices.DeleteFunc(paths, func(path string) bool { return strings.HasSuffix(path, ".json") })
	s.Expect(archives).To(gomega.HaveLen(len(releasePlatforms)))
	krew, err := os.ReadFile(filepath.Join(p.files(), "helmop.krew.yaml"))
	s.must(err)
	for _, platform := range releasePlatforms {
		goos, arch, _ := strings.Cut(platform, "/")
		name, program := "kubectl-helmop_"+laterVersion+"_"+goos+"_"+arch+".tar.gz", "kubectl-helmop"
		if goos == "windows" {
			name, program = strings.TrimSuffix(name, ".tar.gz")+".zip", program+".exe"
		}
		data, err := os.ReadFile(filepath.Join(p.files(), name))
		s.must(err)
		unpacked, err := files.Unpack(name, data)
		s.must(err)
		s.Expect(unpacked).To(gomega.HaveLen(2))
		s.Expect([]string{unpacked[0].Name, unpacked[1].Name}).To(gomega.Equal([]string{program, "LICENSE"}))
		s.must(files.CheckExecutable(unpacked[0].Content, goos, arch))
		s.Expect(string(krew)).To(gomega.ContainSubstring("/" + laterVersion + "/" + name))
	}
}

// verify follows docs/releasing.md in a folder with the files of the later version. Each command must fail with another
// key, and the checksums must not fit a changed file.
func (p *published) verify(s *scenario) {
	folder := filepath.Join(p.work, "download")
	s.must(os.CopyFS(folder, os.DirFS(p.files())))
	for _, name := range []string{"cosign.pub", "other.pub"} {
		s.must(os.Rename(filepath.Join(p.work, name), filepath.Join(folder, name)))
	}
	verified := 0
	for _, command := range p.verifications(s) {
		p.shellIn(s, folder, command)
		if !strings.Contains(command, "cosign.pub") {
			continue
		}
		verified++
		out, err := p.try(s, folder, strings.ReplaceAll(command, "cosign.pub", "other.pub"))
		s.Expect(err).To(gomega.HaveOccurred(), "another key has also signed: %s\n%s", command, out)
	}
	s.Expect(verified).To(gomega.Equal(2+3*2+2), "signed files, artifacts with a signature and a provenance, platforms")

	changed := filepath.Join(folder, "addon-components.yaml")
	s.must(os.WriteFile(changed, []byte("kind: Secret\n"), 0o600))
	for _, command := range p.verifications(s) {
		if strings.Contains(command, "sha256sum") || strings.Contains(command, filepath.Base(changed)) {
			out, err := p.try(s, folder, command)
			s.Expect(err).To(gomega.HaveOccurred(), "the changed file is accepted: %s\n%s", command, out)
		}
	}
}

// verifications returns the commands of docs/releasing.md for the later version, one for each image of a platform.
func (p *published) verifications(s *scenario) []string {
	s.Helper()
	const page, heading = "docs/releasing.md", "## Verify"
	versions := strings.NewReplacer("0.1.0", strings.TrimPrefix(laterVersion, "v"))
	commands := versions.Replace(p.documented(s, page, heading, "sha256sum"))
	forPlatform := p.documented(s, page, heading, "sha256:…")
	for _, digest := range p.platforms(s) {
		commands += strings.ReplaceAll(forPlatform, "sha256:…", digest)
	}
	return strings.Split(strings.TrimSpace(strings.ReplaceAll(commands, "\\\n", "")), "\n")
}

// platforms returns the digests of the images in the index of the later version.
func (p *published) platforms(s *scenario) []string {
	s.Helper()
	ref, err := name.ParseReference(p.image+":"+laterVersion, name.Insecure)
	s.must(err)
	index, err := remote.Index(ref, remote.WithContext(s.Context()))
	s.must(err)
	manifest, err := index.IndexManifest()
	s.must(err)
	digests := make([]string, 0, len(manifest.Manifests))
	for _, one := range manifest.Manifests {
		digests = append(digests, one.Digest.String())
	}
	return digests
}

// lists reads the SPDX documents of the later version.
func (p *published) lists(s *scenario) {
	paths, err := filepath.Glob(filepath.Join(p.files(), "*.spdx.json"))
	s.must(err)
	s.Expect(paths).To(gomega.HaveLen(len(releasePlatforms)+2), "documents of the command line, and of the images of "+
		"the platforms")
	for _, path := range paths {
		text, err := os.Open(path)
		s.must(err)
		var document v2_3.Document
		s.must(spdxjson.ReadInto(text, &document))
		s.must(text.Close())
		s.must(spdxlib.ValidateDocument(&document))
		s.Expect(document.Packages).NotTo(gomega.BeEmpty())
	}
}
