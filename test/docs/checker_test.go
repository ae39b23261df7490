// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli"
	"github.com/helmop/cluster-api-addon-provider-helmop/test/testbed/binaries"
)

// group is the API group of HelmOp's kinds.
const group = "addons.cluster.x-k8s.io"

// otherResources are resources of Kubernetes and of Cluster API's providers that the documentation names.
var otherResources = strings.Fields(`
	all configmap configmaps daemonset daemonsets deploy deployment deployments endpoints event events ingress job jobs
	lease leases limitrange namespace namespaces networkpolicy networkpolicies no node nodes ns pod pods po resourcequota
	secret secrets service services sa serviceaccount serviceaccounts statefulset statefulsets
	clusterrole clusterroles clusterrolebinding clusterrolebindings role roles rolebinding rolebindings
	crd customresourcedefinition customresourcedefinitions csinodes storageclasses
	gatewayclasses fluxinstances ocirepositories kustomizations
	kubeadmcontrolplane kubeadmcontrolplanes dockercluster dockerclusters dockermachine dockermachines
	addonprovider addonproviders providers.clusterctl.cluster.x-k8s.io`)

// otherPrograms are accepted without checks of their arguments.
var otherPrograms = strings.Fields(`
	awk base64 cat cd chmod clusterawsadm cmp cosign cp curl cut date diff docker echo etcdctl exit false find git
	gpg grep head helm jq kill kind kustomize ls mkdir mv openssl oras printenv printf read rm sed set sha256sum sleep sort
	ssh tail tar tee test trap true umask velero wait wc xargs :`)

// checker checks commands. Its methods may be called concurrently.
type checker struct {
	programs    *binaries.Set
	resources   map[string]bool // true: of HelmOp
	conditions  map[string]bool
	annotations map[string]bool
	targets     map[string]bool
	variables   map[string]bool
	folders     map[string]bool

	mutex sync.Mutex
	help  map[string]result
}

type result struct {
	text string
	err  error
}

func newChecker(t *testing.T) *checker {
	t.Helper()
	set, err := binaries.Ensure(t.Context(), binaries.Options{
		Programs: []string{binaries.Kubectl, binaries.Clusterctl}, Progress: os.Stderr,
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &checker{programs: set, resources: map[string]bool{}, folders: map[string]bool{}, help: map[string]result{}}
	for _, name := range otherResources {
		c.resources[name] = false
	}
	c.addKinds(t, set.CoreCRDs)
	c.addKinds(t, filepath.Join(root, "config", "crd", "bases"))
	c.conditions = found(t, `(?m)^\s+\w+Condition\s+= "(\w+)"`, "api/v1alpha1/condition_consts.go")
	c.annotations = found(t, regexp.QuoteMeta(group)+`/([a-z-]+)"`, "api/v1alpha1/*.go", "internal/*/*.go",
		"internal/*/*/*.go", "controllers/*/*.go")
	c.targets = found(t, `(?m)^([a-z][a-z0-9-]*):`, "Makefile")
	c.variables = found(t, `(?m)^([A-Z0-9_]+) \?=`, "Makefile")
	c.variables["KEEP"] = true // of test/demo
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		// Files that a build creates need not exist.
		if name := entry.Name(); !strings.HasPrefix(name, ".") && name != "bin" && name != "out" {
			c.folders[name] = true
		}
	}
	return c
}

// addKinds adds the names of the kinds that a folder of CustomResourceDefinitions defines.
func (c *checker) addKinds(t *testing.T, folder string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no CustomResourceDefinitions in %s (%v)", folder, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(data, crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		names := append([]string{crd.Spec.Names.Plural, crd.Spec.Names.Singular}, crd.Spec.Names.ShortNames...)
		for _, name := range names {
			ours := crd.Spec.Group == group && slices.Contains(names, "helmops")
			c.resources[name] = c.resources[name] || ours
			c.resources[name+"."+crd.Spec.Group] = ours
		}
	}
}

// found returns the matches of an expression in files that are not tests.
func found(t *testing.T, expression string, patterns ...string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, match := range regexp.MustCompile(expression).FindAllStringSubmatch(string(text), -1) {
				all[match[1]] = true
			}
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s finds nothing in %v", expression, patterns)
	}
	return all
}

// definedFunction matches a shell function that a block defines.
var definedFunction = regexp.MustCompile(`(?m)^([a-z-]+)\(\)`)

// block checks the commands of a block, and returns the number of commands.
func (c *checker) block(t *testing.T, b block) (int, []error) {
	t.Helper()
	commands, err := parseShell(b.text)
	if err != nil {
		return 0, []error{err}
	}
	functions := map[string]bool{}
	for _, match := range definedFunction.FindAllStringSubmatch(b.text, -1) {
		functions[match[1]] = true
	}
	var errs []error
	for _, words := range commands {
		if functions[words[0]] {
			continue
		}
		if err := c.command(t, b, words); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", strings.Join(words, " "), err))
		}
	}
	return len(commands), errs
}

func (c *checker) command(t *testing.T, b block, words []string) error {
	if err := c.files(words[1:]); err != nil {
		return err
	}
	switch program, args := words[0], words[1:]; program {
	case "kubectl":
		if len(args) > 0 && args[0] == "helmop" {
			return helmopCommand(args[1:], !b.inline)
		}
		return c.kubectl(t, args)
	case "clusterctl":
		_, err := c.parse(t, binaries.Clusterctl, args)
		return err
	case "make":
		return c.make(args)
	case "go":
		return goCommand(args)
	default:
		if !slices.Contains(otherPrograms, program) {
			return fmt.Errorf("unknown program %q", program)
		}
		return nil
	}
}

// files checks that each word that begins with a folder of the repository is an existing file.
func (c *checker) files(words []string) error {
	for _, word := range words {
		if i := strings.LastIndexAny(word, "=@"); i >= 0 {
			word = word[i+1:]
		}
		path := strings.TrimPrefix(word, "./")
		first, _, isPath := strings.Cut(path, "/")
		if !isPath || !c.folders[first] || strings.ContainsAny(path, "*<>$…:") {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(strings.TrimSuffix(path, "...")))); err != nil {
			return fmt.Errorf("%s does not exist in the repository", word)
		}
	}
	return nil
}

func (c *checker) make(args []string) error {
	for _, arg := range args {
		if name, _, isVariable := strings.Cut(arg, "="); isVariable {
			if !c.variables[name] {
				return fmt.Errorf("no variable %q", name)
			}
			continue
		}
		// Other repositories have their own targets.
		if !c.targets[arg] && arg != "tilt-up" && !strings.HasPrefix(arg, "-") && arg == strings.ToLower(arg) {
			return fmt.Errorf("no target %q", arg)
		}
	}
	return nil
}

func goCommand(args []string) error {
	for _, arg := range args {
		path, _, _ := strings.Cut(arg, "@")
		if local, ok := strings.CutPrefix(path, "github.com/helmop/cluster-api-addon-provider-helmop/"); ok {
			path = "./" + local
		}
		if !strings.HasPrefix(path, "./") {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(strings.TrimSuffix(path, "...")))); err != nil {
			return fmt.Errorf("%s does not exist in the repository", path)
		}
	}
	return nil
}

// helmopCommand parses a command line of kubectl helmop. With complete, all required arguments must be given.
func helmopCommand(args []string, complete bool) error {
	if slices.Contains(args, "…") {
		return nil
	}
	args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "$@" })
	tree := cli.Command(cli.Streams{In: bytes.NewReader(nil), Out: io.Discard, ErrOut: io.Discard})
	command, rest, err := tree.Find(args)
	if err != nil {
		return err
	}
	command.InitDefaultHelpFlag()
	command.InitDefaultVersionFlag()
	if err := command.ParseFlags(rest); err != nil {
		return err
	}
	if help, _ := command.Flags().GetBool("help"); help {
		return nil
	}
	if positional := command.Flags().Args(); command == tree && len(positional) > 0 {
		return fmt.Errorf("no command %q", positional[0])
	}
	if command == tree || command.HasSubCommands() || !complete {
		return nil
	}
	return command.ValidateArgs(command.Flags().Args())
}

// needUniqueNames are the verbs that change objects, or that wait for them.
var needUniqueNames = []string{"annotate", "delete", "edit", "label", "patch", "scale", "wait"}

// kubectl checks a command line with kubectl's own parser, and checks the names in it.
func (c *checker) kubectl(t *testing.T, args []string) error {
	if strings.Contains(strings.Join(args, " "), "…") {
		return nil
	}
	help, err := c.parse(t, binaries.Kubectl, args)
	if err != nil {
		return err
	}
	verb, positional := positionals(args, help)
	resources, err := c.named(verb, positional)
	if err != nil {
		return err
	}
	ours := slices.ContainsFunc(resources, func(name string) bool { return c.resources[name] })
	if slices.Contains(needUniqueNames, verb) && !isMention(args, positional) {
		for _, name := range resources {
			if name == "helmop" || name == "helmops" {
				return fmt.Errorf("write hop or helmops.%s: Fleet has a kind HelmOp, too", group)
			}
		}
	}
	if ours && verb == "patch" {
		return patchedFields(resources[0], args)
	}
	if ours && verb == "wait" {
		for _, arg := range args {
			if name, ok := strings.CutPrefix(arg, "--for=condition="); ok {
				if name, _, _ = strings.Cut(name, "="); !c.conditions[name] {
					return fmt.Errorf("no condition %q", name)
				}
			}
		}
	}
	return c.metadata(positional)
}

// isMention reports whether arguments name a kind but no object: a sentence then mentions the command without its
// arguments.
func isMention(args, positional []string) bool {
	return len(positional) == 1 && !strings.Contains(positional[0], "/") && !slices.Contains(args, "--all")
}

// named returns the resources that the positional arguments of a verb name.
func (c *checker) named(verb string, positional []string) ([]string, error) {
	var names []string
	switch verb {
	case "get", "describe", "delete", "annotate", "label", "patch", "wait", "edit", "explain", "scale":
		for i, arg := range positional {
			name, _, hasName := strings.Cut(arg, "/")
			switch {
			case strings.ContainsAny(arg, "=$<") || strings.HasSuffix(arg, "-"):
			case i == 0 && verb == "explain":
				names = append(names, strings.Split(name, ".")[0])
			case i == 0:
				names = append(names, strings.Split(name, ",")...)
			case hasName:
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		// Resources of charts and of other providers have a group that belongs neither to HelmOp nor to Cluster API.
		_, group, hasGroup := strings.Cut(name, ".")
		other := hasGroup && strings.Contains(group, ".") && !strings.HasSuffix(group, "cluster.x-k8s.io")
		if _, known := c.resources[name]; !known && !other {
			return nil, fmt.Errorf("no resource %q", name)
		}
	}
	return names, nil
}

// metadata checks names of annotations and labels.
func (c *checker) metadata(positional []string) error {
	for _, arg := range positional {
		name, ours := strings.CutPrefix(arg, group+"/")
		if !ours {
			continue
		}
		name, _, _ = strings.Cut(name, "=")
		if !c.annotations[name] && !c.annotations[strings.TrimSuffix(name, "-")] {
			return fmt.Errorf("no annotation or label %q", name)
		}
	}
	return nil
}

// patchedFields checks that HelmOp's API has the fields of a merge patch.
func patchedFields(resource string, args []string) error {
	kinds := map[string]any{
		"hop": &addonsv1.HelmOp{}, "helmop": &addonsv1.HelmOp{}, "hopr": &addonsv1.HelmOpRelease{},
		"helmoprelease": &addonsv1.HelmOpRelease{},
	}
	object := kinds[strings.TrimSuffix(strings.TrimSuffix(resource, "."+group), "s")]
	for i, arg := range args {
		patch := strings.TrimPrefix(arg, "--patch=")
		if i > 0 && (args[i-1] == "-p" || args[i-1] == "--patch") {
			patch = arg
		}
		if object == nil || !strings.HasPrefix(patch, "{") {
			continue
		}
		decoder := json.NewDecoder(strings.NewReader(patch))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(object); err != nil {
			return fmt.Errorf("invalid patch: %w", err)
		}
	}
	return nil
}

// parse runs a command line with the flag for help, so that the program parses it, and returns the help.
func (c *checker) parse(t *testing.T, program string, args []string) (string, error) {
	withHelp := slices.Clone(args)
	at := len(withHelp)
	if i := slices.Index(withHelp, "--"); i >= 0 {
		at = i
	}
	withHelp = slices.Insert(withHelp, at, "--help")
	key := program + " " + strings.Join(withHelp, "\x00")
	c.mutex.Lock()
	known, ok := c.help[key]
	c.mutex.Unlock()
	if ok {
		return known.text, known.err
	}
	command := exec.CommandContext(t.Context(), c.programs.Path(program), withHelp...)
	command.Env = append(os.Environ(), "CLUSTERCTL_DISABLE_VERSIONCHECK=true", "KUBECONFIG="+os.DevNull)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		err = errors.New(first)
	}
	c.mutex.Lock()
	c.help[key] = result{string(out), err}
	c.mutex.Unlock()
	return string(out), err
}

var (
	// helpedFlag matches a flag in the help of kubectl, with its default.
	helpedFlag = regexp.MustCompile(`(?m)^    (?:-(\w), )?--([a-z-]+)=(.*):$`)

	// globalValues are flags of all commands that take a value.
	globalValues = strings.Fields("-n --namespace --kubeconfig --context --cluster --user -s --server --token --as")

	// optionalValues are flags that take a value only after "=".
	optionalValues = strings.Fields("--dry-run --cascade --validate --show-managed-fields")
)

// positionals splits the arguments of kubectl into its verb and the arguments that are not flags.
func positionals(args []string, help string) (verb string, positional []string) {
	takesValue := map[string]bool{}
	for _, name := range globalValues {
		takesValue[name] = true
	}
	for _, match := range helpedFlag.FindAllStringSubmatch(help, -1) {
		value := match[3] != "true" && match[3] != "false"
		takesValue["--"+match[2]] = value
		if match[1] != "" {
			takesValue["-"+match[1]] = value
		}
	}
	for _, name := range optionalValues {
		takesValue[name] = false
	}
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case arg == "--":
			return verb, positional
		case strings.HasPrefix(arg, "-") && arg != "-":
			if takesValue[arg] {
				i++
			}
		case verb == "":
			verb = arg
		default:
			positional = append(positional, arg)
		}
	}
	return verb, positional
}
