// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// Names of the programs, as keys of Set.
const (
	Etcd                  = "etcd"
	KubeAPIServer         = "kube-apiserver"
	KubeControllerManager = "kube-controller-manager"
	KubeScheduler         = "kube-scheduler"
	Kubectl               = "kubectl"
	CoreManager           = "capi-core-manager"
	Clusterctl            = "clusterctl"
	Registry              = "registry"
	Kwok                  = "kwok"
	// Controllers runs the controllers of kube-controller-manager that a cluster without nodes needs.
	Controllers = "controllers"
)

// toolsModule is the folder whose go.mod pins all programs. `make align` keeps its requirements equal to the product's,
// so that packages that several programs use are compiled once.
const toolsModule = "hack/tools/testbed"

// folder is a set of YAML files that are copied from a module into the cache. Later runs then need no go command to
// find them.
type folder struct {
	name   string
	module string
	// program is the program that needs the folder. It is empty if every command needs the folder.
	program string
	// globs select files inside the module; their base names must differ.
	globs []string
}

// Names of the folders in the cache.
const (
	coreCRDs   = "capi-core-crds"
	kwokStages = "kwok-stages"
	kwokCRDs   = "kwok-crds"
)

func folders() []folder {
	return []folder{
		{name: coreCRDs, module: clusterAPIModule, globs: []string{"core/config/crd/bases/*.yaml"}},
		{name: kwokStages, module: kwokModule, program: Kwok, globs: []string{
			"kustomize/stage/node/fast/node-*.yaml",
			"kustomize/stage/node/heartbeat-with-lease/node-*.yaml",
			"kustomize/stage/pod/fast/pod-*.yaml",
		}},
		{name: kwokCRDs, module: kwokModule, program: Kwok, globs: []string{"kustomize/crd/bases/kwok.x-k8s.io_logs.yaml"}},
	}
}

// program describes the origin of one binary.
type program struct {
	name string
	// module is the Go module whose version is the program's version.
	module string
	// pkg is the main package to build.
	pkg string
	// versionPackage holds the link-time variables gitVersion, gitMajor and gitMinor. It is empty for programs that do not
	// report a version.
	versionPackage string
	// asset is set for programs that KUBEBUILDER_ASSETS may hold.
	asset bool
	// source is the folder of the program in the tools module. It is empty for programs of other modules.
	source string
	// released is set for programs that dl.k8s.io publishes for Linux.
	released bool
}

const (
	kubernetesModule = "k8s.io/kubernetes"
	clusterAPIModule = "sigs.k8s.io/cluster-api"
	etcdModule       = "go.etcd.io/etcd/server/v3"
	registryModule   = "github.com/distribution/distribution/v3"
	kwokModule       = "sigs.k8s.io/kwok"
)

func programs() []program {
	kubernetes := func(name string, asset bool) program {
		return program{
			name: name, module: kubernetesModule, pkg: kubernetesModule + "/cmd/" + name,
			versionPackage: "k8s.io/component-base/version", asset: asset, released: true,
		}
	}
	clusterAPI := func(name, dir string) program {
		return program{
			name: name, module: clusterAPIModule, pkg: clusterAPIModule + "/" + dir,
			versionPackage: clusterAPIModule + "/version",
		}
	}
	own := func(name, module string) program {
		return program{name: name, module: module, pkg: repositoryModule + "/" + toolsModule + "/" + name, source: name}
	}
	return []program{
		{name: Etcd, module: etcdModule, pkg: etcdModule, asset: true},
		kubernetes(KubeAPIServer, true),
		kubernetes(KubeControllerManager, false),
		kubernetes(KubeScheduler, false),
		kubernetes(Kubectl, true),
		clusterAPI(CoreManager, "core"),
		clusterAPI(Clusterctl, "cmd/clusterctl"),
		own(Registry, registryModule),
		own(Controllers, kubernetesModule),
		{name: Kwok, module: kwokModule, pkg: kwokModule + "/cmd/kwok"},
	}
}

// Basic returns the names of the programs that a management cluster and workload clusters without nodes need.
func Basic() []string {
	return []string{Etcd, KubeAPIServer, Controllers, Kubectl, CoreManager, Clusterctl, Registry}
}

// pin is the version of one program in a tools module.
type pin struct {
	version string
	// hash changes with any line of the go.mod, so that a change of a dependency causes a new build, too.
	hash string
}

// pinOf reads the pinned version of module from the text of a go.mod file.
func pinOf(gomod []byte, module string) (pin, error) {
	file, err := modfile.Parse("go.mod", gomod, nil)
	if err != nil {
		return pin{}, err
	}
	for _, r := range file.Require {
		if r.Mod.Path == module {
			sum := sha256.Sum256(gomod)
			return pin{version: r.Mod.Version, hash: hex.EncodeToString(sum[:])[:12]}, nil
		}
	}
	return pin{}, fmt.Errorf("the module %s is not required", module)
}

// hashOf returns a hash of the Go files of a folder.
func hashOf(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		// The length separates the files.
		fmt.Fprintf(sum, "%d\n%s", len(data), data)
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}

// cacheName is the file name of a program, or of a folder, in the cache.
func cacheName(name string, p pin, goos, goarch string) string {
	return fmt.Sprintf("%s-%s-%s-%s-%s", name, p.version, goos, goarch, p.hash)
}

// executable returns the file name that the go command gives to the program. The name is the last element of the
// package's path that is not a major version.
func (p program) executable() string {
	if dir, last := path.Split(p.pkg); dir != "" && majorVersion.MatchString(last) {
		return path.Base(dir)
	}
	return path.Base(p.pkg)
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// ldflags strips debug information and sets the versions of all programs that have variables for them. Clients depend
// on an API server's version.
func ldflags(programs []program, pins map[string]pin) string {
	flags := []string{"-s", "-w"}
	stamped := map[string]bool{"": true}
	for _, p := range programs {
		if stamped[p.versionPackage] {
			continue
		}
		stamped[p.versionPackage] = true
		version := pins[p.module].version
		major, minor, _ := strings.Cut(strings.TrimPrefix(semver.MajorMinor(version), "v"), ".")
		for _, v := range [][2]string{{"gitVersion", version}, {"gitMajor", major}, {"gitMinor", minor}} {
			flags = append(flags, "-X", p.versionPackage+"."+v[0]+"="+v[1])
		}
	}
	return strings.Join(flags, " ")
}

// RepositoryRoot returns the folder of the project's own go.mod. It searches from the working directory upwards.
func RepositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if data, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil &&
			modfile.ModulePath(data) == repositoryModule {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod of %s at the working directory or above it", repositoryModule)
		}
		dir = parent
	}
}

const repositoryModule = "github.com/helmop/cluster-api-addon-provider-helmop"

// defaultCacheDir returns the cache folder that all checkouts of this user share.
func defaultCacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the user's cache folder: %w", err)
	}
	return filepath.Join(base, "helmop", "testbed"), nil
}

func thisPlatform(name string, p pin) string {
	return cacheName(name, p, runtime.GOOS, runtime.GOARCH)
}
