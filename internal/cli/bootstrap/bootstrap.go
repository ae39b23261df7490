// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/helmop/cluster-api-addon-provider-helmop/api/v1alpha1"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/bootstrap"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/registryaccess"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/version"
)

// ociCommand is the command "bootstrap oci".
type ociCommand struct {
	registryaccess.Flags
	output           kube.Output
	pull             pullFlags
	kube             *genericclioptions.ConfigFlags
	url, clusterURL  string
	clusterPath      string
	kustomization    string
	image            string
	provider         string
	username         string
	password         string
	passwordStdin    bool
	interval         time.Duration
	intervalGiven    bool
	export, pushOnly bool
	pause            bool
	allowEmptyState  bool
	sign             registryaccess.SignFlags
	verifyKey        string
	streams          genericiooptions.IOStreams
}

// Result is the result of "bootstrap oci".
type Result struct {
	// Provider and State are the artifacts.
	Provider Artifact  `json:"provider"`
	State    *Artifact `json:"clusterState,omitempty"`
	// Credential is the kind of credential for pulls: "Secret", "Anonymous" or the name of the cloud.
	Credential string `json:"credential,omitempty"`
	// Objects are the objects that were applied to the management cluster.
	Objects []Object `json:"objects,omitempty"`
}

// Artifact is an artifact that the command pushed or found in the registry.
type Artifact struct {
	// Reference is the reference of the artifact by its digest. Tags point to the artifact.
	Reference string   `json:"reference"`
	Tags      []string `json:"tags"`
	// Pushed is true if the artifact or one of its tags was pushed.
	Pushed bool `json:"pushed"`
	// Signature is the digest of the signature's manifest; empty without a signature.
	Signature string `json:"signature,omitempty"`
}

// Object is an object that the command applied to the management cluster.
type Object struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Namespace  string            `json:"namespace,omitempty"`
	Name       string            `json:"name"`
	Outcome    bootstrap.Outcome `json:"outcome"`
}

// Command returns the command "bootstrap".
func Command(streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Install HelmOp in a management cluster, and keep both in sync with a registry",
		Args:  kube.Args(0, 0),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBootstrapOCI(streams))
	return cmd
}

func newBootstrapOCI(streams genericiooptions.IOStreams) *cobra.Command {
	b := &ociCommand{streams: streams, kube: newKubeFlags()}
	cmd := &cobra.Command{
		Use:   "oci --url oci://HOST/REPOSITORY:TAG --cluster-url oci://HOST/REPOSITORY:TAG",
		Short: "Keep HelmOp and the desired state of the management cluster in an OCI registry",
		Long: `Keep HelmOp and the desired state of the management cluster in an OCI registry.

The command pushes the components of this version to --url and applies them to the management cluster. From then on,
HelmOp updates itself from there. HelmOp also applies and prunes the desired state (namespaces, Clusters, HelmOps): the
folder --cluster-path of the artifact at --cluster-url. If there is no such artifact and the cluster has no state yet,
the command pushes an empty artifact.

To upgrade HelmOp, run the new version of the command with the same flags and HELMOP_... variables.

The credential for pushing (--username, or the Docker configuration) is never stored in the cluster. The cluster pulls
with --pull-username, which must not be able to push, or anonymously.`,
		Example: `  kubectl helmop bootstrap oci --url oci://registry.example.com/helmop:production \
    --cluster-url oci://registry.example.com/fleet:production --cluster-path clusters/production \
    --pull-username fleet-reader --pull-password "$READ_TOKEN"`,
		Args: kube.Args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd) },
	}
	b.Flags.Add(cmd.Flags())
	b.output.Add(cmd, "plain text", "json", "yaml")
	b.add(cmd.Flags())
	b.pull.add(cmd.Flags())
	b.sign.Add(cmd.Flags())
	b.kube.AddFlags(cmd.Flags())
	return cmd
}

// newKubeFlags returns the flags of kubectl for the cluster and the identity. There is no --namespace, because the
// objects name their namespaces. Nothing is cached. --username and --password belong to the registry.
func newKubeFlags() *genericclioptions.ConfigFlags {
	flags := genericclioptions.NewConfigFlags(true)
	flags.Namespace, flags.CacheDir = nil, nil
	return flags
}

func (b *ociCommand) add(flags *pflag.FlagSet) {
	flags.StringVar(&b.url, "url", "",
		"Repository and tag of HelmOp's components, oci://HOST/REPOSITORY:TAG. Each update moves the tag.")
	flags.StringVar(&b.clusterURL, "cluster-url", "",
		"Repository and tag of the management cluster's desired state, oci://HOST/REPOSITORY:TAG.")
	flags.StringVar(&b.clusterPath, "cluster-path", "",
		"Folder of the artifact at --cluster-url, or \".\" for the whole artifact "+
			"(default: the folder that the cluster uses already, otherwise the whole artifact).")
	flags.StringVar(&b.kustomization, "kustomization", "",
		"Kustomization file to apply to the components, which it names as the resource "+bootstrap.ComponentsFile+".")
	flags.StringVar(&b.image, "image", "", "Image of the manager (default: the image of this version).")
	flags.StringVar(&b.provider, "provider", "",
		"Cloud whose workload identity the manager pulls with, instead of a stored credential: aws, azure or gcp.")
	flags.StringVarP(&b.username, "username", "u", "",
		"Username for pushing (default: the credential in the Docker configuration).")
	flags.StringVar(&b.password, "password", "", "Password for pushing.")
	flags.BoolVar(&b.passwordStdin, "password-stdin", false, "Read the password for pushing from standard input.")
	flags.DurationVar(&b.interval, "interval", time.Minute,
		"How often HelmOp checks whether the tags have moved. If it is not set, an existing interval is kept.")
	flags.StringVar(&b.verifyKey, "verify-key", "",
		"File with a public key of cosign. The cluster accepts only artifacts that are signed with its private key.")
	flags.BoolVar(&b.pause, "pause", false,
		"Pause the HelmOp of the desired state until the command runs again without this flag. "+
			"Use it before \"clusterctl move\" to this cluster.")
	flags.BoolVar(&b.allowEmptyState, "allow-empty-state", false,
		"Push an empty state if there is no artifact at --cluster-url, even if the cluster has a state. "+
			"This deletes everything that the state has created, including Clusters.")
	flags.BoolVar(&b.export, "export", false,
		"Print the objects that would be applied. Change neither the cluster nor the registry.")
	flags.BoolVar(&b.pushOnly, "push-only", false,
		"Push the components only; HelmOp then updates itself. Use it to upgrade without access to the cluster.")
}

// plan holds the parsed arguments.
type plan struct {
	provider, state registryaccess.Location
	components      []*unstructured.Unstructured
	access          bootstrap.Access
	signer          *registryaccess.Signer
	pull            known
	// path is the folder of the desired state in its artifact.
	path string
}

func (b *ociCommand) run(cmd *cobra.Command) error {
	b.intervalGiven = cmd.Flags().Changed("interval")
	plan, err := b.plan(cmd.Context())
	if err != nil {
		return err
	}
	ctx, cancel := b.Bounded(cmd)
	defer cancel()
	if b.export {
		return b.print(plan)
	}
	result := &Result{}
	if err := b.push(ctx, plan, result); err != nil {
		return err
	}
	if !b.pushOnly {
		if err := b.install(ctx, plan, result); err != nil {
			return err
		}
	}
	return b.output.Write(b.streams.Out, result, func(out io.Writer) error {
		_, err := fmt.Fprintln(out, result.Provider.Reference)
		return err
	})
}

// plan reads the arguments and builds the components. It sends no requests.
func (b *ociCommand) plan(ctx context.Context) (*plan, error) {
	plan := &plan{path: strings.Trim(path.Clean("/"+b.clusterPath), "/")}
	var err error
	if plan.provider, err = movingTag("--url", b.url); err != nil {
		return nil, err
	}
	if !b.pushOnly {
		if plan.state, err = movingTag("--cluster-url", b.clusterURL); err != nil {
			return nil, err
		}
	}
	if err := b.validate(); err != nil {
		return nil, err
	}
	if err := b.readPasswords(plan); err != nil {
		return nil, err
	}
	options := bootstrap.Options{Version: version.Version, Image: b.image, Variable: os.LookupEnv}
	if b.kustomization != "" {
		if options.Kustomization, err = readKustomization(b.kustomization); err != nil {
			return nil, err
		}
	}
	if plan.components, err = bootstrap.Components(options); err != nil {
		return nil, usageIf(err)
	}
	if plan.signer, err = b.sign.Signer(ctx, b.streams); err != nil {
		return nil, err
	}
	if plan.pull, err = b.pull.credentials(ctx, plan.provider, plan.state); err != nil {
		return nil, err
	}
	return plan, b.planAccess(plan)
}

// planAccess sets the credentials and the trusted CAs with which the cluster pulls.
func (b *ociCommand) planAccess(plan *plan) (err error) {
	plan.access = bootstrap.Access{
		PlainHTTP: b.PlainHTTP, Provider: addonsv1.RegistryProvider(b.provider),
		Interval: b.interval, PauseState: b.pause,
	}
	if b.CAFile != "" {
		if plan.access.CA, err = os.ReadFile(b.CAFile); err != nil {
			return kube.Usagef("--ca-file: %v", err)
		}
	}
	if b.verifyKey != "" {
		if plan.access.VerifyKey, err = os.ReadFile(b.verifyKey); err == nil {
			_, err = cryptoutils.UnmarshalPEMToPublicKey(plan.access.VerifyKey)
		}
		if err != nil {
			return kube.Usagef("--verify-key: %v", err)
		}
	}
	if plan.pull != nil {
		plan.access.DockerConfig, err = plan.pull.dockerConfig()
	}
	return err
}

// readPasswords reads the passwords from the standard input, and sets the credential for pushes.
func (b *ociCommand) readPasswords(plan *plan) (err error) {
	switch {
	case b.passwordStdin:
		b.password, err = registryaccess.ReadPassword(b.streams.In)
	case b.pull.stdin:
		b.pull.password, err = registryaccess.ReadPassword(b.streams.In)
	}
	if b.username != "" {
		b.As = only(b.username, b.password, plan.provider, plan.state).find
	}
	return err
}

// usageIf converts an error of package bootstrap about invalid input into a usage error.
func usageIf(err error) error {
	if errors.Is(err, bootstrap.ErrInvalid) {
		return kube.Usagef("%v", err)
	}
	return err
}

// movingTag parses a reference that must have a tag.
func movingTag(flag, text string) (registryaccess.Location, error) {
	if text == "" {
		return registryaccess.Location{}, kube.Usagef("%s is required", flag)
	}
	l, err := registryaccess.ParseLocation(text)
	if err != nil {
		return registryaccess.Location{}, err
	}
	if l.ValidateReferenceAsTag() != nil {
		return registryaccess.Location{}, kube.Usagef(
			"%s: %q must have a tag, not a digest, because updates move the tag", flag, text)
	}
	return l, nil
}

// isCloud reports whether the manager pulls with its identity in a cloud.
func (b *ociCommand) isCloud() bool {
	return b.provider != "" && b.provider != string(addonsv1.RegistryProviderGeneric)
}

// validate checks the combination of the flags.
func (b *ociCommand) validate() error {
	isCloud := b.isCloud()
	switch {
	case b.export && b.pushOnly:
		return kube.Usagef("--export and --push-only cannot be used together")
	case b.passwordStdin && b.pull.stdin:
		return kube.Usagef(
			"--password-stdin and --pull-password-stdin cannot be used together: there is only one standard input")
	case (b.password != "" || b.passwordStdin) && b.username == "":
		return kube.Usagef("--password requires --username")
	case b.username != "" && b.password == "" && !b.passwordStdin && !b.export:
		return kube.Usagef("--username requires --password or --password-stdin")
	case isCloud && !slices.Contains([]string{"aws", "azure", "gcp"}, b.provider):
		return kube.Usagef("--provider %q is unknown; use aws, azure or gcp", b.provider)
	case isCloud && b.pull.username+b.pull.config != "":
		return kube.Usagef("--provider cannot be used with --pull-username or --pull-registry-config")
	case isCloud && b.PlainHTTP:
		return kube.Usagef(
			"--provider and --plain-http cannot be used together: the manager's identity is never sent unencrypted")
	case isCloud && b.CAFile != "":
		return kube.Usagef(
			"--provider and --ca-file cannot be used together: the manager does not use its identity with a CA of a HelmOp; " +
				"put the CA into the ConfigMap helmop-registries for the manager, and into SSL_CERT_FILE for this command")
	case b.interval < time.Second:
		return kube.Usagef("--interval must be at least 1s")
	}
	return errors.Join(b.pull.validate(), b.sign.Validate(), b.output.Validate())
}

// print writes all objects that would be applied.
func (b *ociCommand) print(plan *plan) error {
	objects, err := plan.helmOps(nil)
	if err != nil {
		return err
	}
	text, err := bootstrap.YAML(append(bootstrap.Own(plan.components), objects...))
	if err != nil {
		return err
	}
	if b.verifyKey == "" {
		b.say("warning: without --verify-key, the printed HelmOps require no signatures; " +
			"applying them to a cluster that requires signatures may remove the requirement")
	}
	if b.clusterPath == "" {
		b.say("warning: without --cluster-path, the printed HelmOp uses the whole artifact; " +
			"applying it to a cluster that uses one folder may add the other folders")
	}
	_, err = b.streams.Out.Write(text)
	return err
}

// helmOps returns the HelmOps and their Secrets. digests maps the name of a HelmOp to the digest of its pushed
// artifact. An annotation with the digest makes the HelmOp resolve its tag at once.
func (p *plan) helmOps(digests map[string]string) ([]*unstructured.Unstructured, error) {
	provider := bootstrap.Artifact{URL: p.provider.URL(), Tag: p.provider.Reference.Reference}
	state := bootstrap.Artifact{URL: p.state.URL(), Tag: p.state.Reference.Reference, Path: p.path}
	objects, err := bootstrap.HelmOps(provider, state, p.access)
	for _, object := range objects {
		if digest, ok := digests[object.GetName()]; ok {
			object.SetAnnotations(map[string]string{addonsv1.ResolveRequestedAtAnnotation: digest})
		}
	}
	return objects, err
}

// install applies all objects and waits until they are ready.
func (b *ociCommand) install(ctx context.Context, plan *plan, result *Result) error {
	applier, err := b.applier(result)
	if err != nil {
		return err
	}
	if err := applier.Check(ctx); err != nil {
		return err
	}
	components := bootstrap.Own(plan.components)
	b.say("installing the components of %s in namespace %s", version.Version, bootstrap.Namespace)
	if err := applier.Apply(ctx, components); err != nil {
		return err
	}
	b.say("waiting until the components are ready")
	if err := applier.Wait(ctx, components); err != nil {
		return err
	}
	digests := map[string]string{
		bootstrap.ProviderHelmOp: digestOf(result.Provider.Reference),
		bootstrap.StateHelmOp:    digestOf(result.State.Reference),
	}
	objects, err := plan.helmOps(digests)
	if err != nil {
		return err
	}
	if err := b.keepSource(ctx, applier, objects); err != nil {
		return err
	}
	b.say("applying the HelmOps that keep the components and the cluster in sync with the registry")
	if err := applier.Apply(ctx, objects); err != nil {
		return err
	}
	b.say("waiting until HelmOp manages the components and the cluster")
	for _, waits := range []struct{ helmOp, condition string }{
		{bootstrap.ProviderHelmOp, addonsv1.ReadyCondition},
		// This HelmOp creates Clusters, so it may take hours to become Ready.
		{bootstrap.StateHelmOp, addonsv1.ReleasedCondition},
	} {
		err := applier.WaitFor(ctx, waits.helmOp, digests[waits.helmOp], waits.condition)
		if errors.Is(err, bootstrap.ErrPaused) {
			b.say("warning: %s: HelmOp ignores it until it is resumed", err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// applier returns a client for the management cluster. It records each applied object in the result.
func (b *ociCommand) applier(result *Result) (*bootstrap.Applier, error) {
	config, err := b.kube.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of the management cluster: %w", err)
	}
	config.UserAgent = "kubectl-helmop/" + version.Version
	scheme := runtime.NewScheme()
	if err := addonsv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	cluster, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the management cluster: %w", err)
	}
	return &bootstrap.Applier{Client: cluster, Report: func(object client.Object, outcome bootstrap.Outcome) {
		b.say("  %s %s", bootstrap.Title(object), outcome)
		version, kind := object.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
		result.Objects = append(result.Objects, Object{
			APIVersion: version, Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), Outcome: outcome,
		})
	}}, nil
}

// say prints progress.
func (b *ociCommand) say(format string, args ...any) {
	_, _ = fmt.Fprintf(b.streams.ErrOut, format+"\n", args...)
}
