// Copyright 2026 The HelmOp Authors.
// SPDX-License-Identifier: Apache-2.0

package support

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"

	"github.com/helmop/cluster-api-addon-provider-helmop/internal/cli/kube"
	"github.com/helmop/cluster-api-addon-provider-helmop/internal/plural"
)

// maxLogLines is the largest number of lines of each log in an archive.
const maxLogLines = 5000

// debug is the command "debug".
type debug struct {
	kube.Base
	allNamespaces            bool
	managerNamespace, output string
	since, timeout           time.Duration
}

func newDebug(o kube.Options) *cobra.Command {
	d := &debug{Base: kube.NewBase(o)}
	cmd := &cobra.Command{
		Use:   "debug [HELMOP]",
		Short: "Write an archive for a bug report, without secrets",
		Long: `Write an archive for a bug report, without secrets.

The archive has the HelmOps of the namespace, their HelmOpReleases, HelmOpRevisions, Clusters and Events, the
Deployments, Pods and logs of the manager, and the versions of everything. With HELMOP, it has the objects of this
HelmOp only. What cannot be read is noted in the archive, and the command goes on.

The archive has neither Secrets nor the data of ConfigMaps. Values, templates of values and patches in specs,
annotations of other programs, variables of Clusters and most environment variables are replaced by [redacted]. With
your rights, the command reads the Secrets to which the HelmOps refer, and hides their values wherever they appear. The
file README.md in the archive lists what the archive has, and what was left out. Look through the archive before you
share it.`,
		Example: `  # Everything in the namespace
  kubectl helmop debug -n fleet

  # One HelmOp, and the log of the last hour
  kubectl helmop debug calico --since=1h -o calico.tar.gz

  # What does the archive have?
  tar -xzOf calico.tar.gz calico/README.md`,
		Args:              kube.Args(0, 1),
		ValidArgsFunction: d.CompleteHelmOps(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return d.run(cmd.Context(), strings.Join(args, ""))
		},
	}
	d.Add(cmd)
	addManagerFlag(cmd, &d.managerNamespace)
	flags := cmd.Flags()
	flags.BoolVarP(&d.allNamespaces, "all-namespaces", "A", false, "Collect the objects of all namespaces.")
	flags.StringVarP(&d.output, "output", "o", "",
		"The file to write, NAME.tar.gz; it must not exist (default: helmop-debug-TIME.tar.gz).")
	flags.DurationVar(&d.since, "since", 0, fmt.Sprintf("Collect the log of the last time only, for example 1h "+
		"(default: the last %d lines of each Pod).", maxLogLines))
	flags.DurationVar(&d.timeout, "timeout", 5*time.Minute, "How long the command may take; 0 is without a limit.")
	_ = cmd.MarkFlagFilename("output", "tar.gz")
	return cmd
}

func (d *debug) run(ctx context.Context, helmOp string) error {
	if d.output == "" {
		d.output = "helmop-debug-" + d.Now().UTC().Format("20060102-150405") + ".tar.gz"
	}
	folder, ok := strings.CutSuffix(baseName(d.output), ".tar.gz")
	switch {
	case !ok || folder == "":
		return kube.Usagef("--output %q must end with .tar.gz", d.output)
	case helmOp != "" && d.allNamespaces:
		return kube.Usagef("--all-namespaces cannot be used with the name of a HelmOp")
	}
	if _, err := os.Lstat(d.output); err == nil {
		return fmt.Errorf("the file %s exists; remove it, or set --output", d.output)
	}
	ctx, cancel := kube.Bounded(ctx, d.timeout)
	defer cancel()
	c, err := d.collector(ctx, helmOp)
	if err != nil {
		return err
	}
	c.collect(ctx)
	if err := c.cutOff(ctx); err != nil {
		// Without all Secrets, the archive could have their values.
		return fmt.Errorf("no archive was written, because the command ended before everything was read: %w", err)
	}
	if c.reads == 0 {
		return errors.New("nothing could be read; " + strings.Join(c.notRead, "; "))
	}
	m := newMasker(c.inline, c.secrets)
	if m.hidesAll() {
		c.note("the messages and logs, which are hidden", errors.New("the Secrets are too large to be searched for"))
	}
	files, err := filesOf(c.collection, m, d.Now())
	if err != nil {
		return err
	}
	readme := archiveFile{name: "README.md", content: readmeOf(c.collection, m, files, c.scope(), d.Now())}
	if err := writeArchive(d.output, folder, append([]archiveFile{readme}, files...), d.Now()); err != nil {
		return err
	}
	if len(c.notRead) > 0 {
		d.Note("warning: %s could not be read; README.md in the archive has the reasons",
			plural.Count(len(c.notRead), "thing", "things"))
	}
	if c.mayLeak {
		d.Note("warning: not all Secrets could be read, so the archive may have their values")
	}
	d.Note("Look through the archive before you share it. %s/README.md lists what it has, and what was left out.", folder)
	_, err = fmt.Fprintln(d.Streams.Out, d.output)
	return err
}

// baseName returns the last element of a path.
func baseName(path string) string { return path[strings.LastIndexByte(path, os.PathSeparator)+1:] }

// collector returns a collector. It returns an error if the HelmOp does not exist.
func (d *debug) collector(ctx context.Context, helmOp string) (*collector, error) {
	client, err := d.Connect()
	if err != nil {
		return nil, err
	}
	config, err := d.RestConfig()
	if err != nil {
		return nil, err
	}
	c := &collector{namespace: client.Namespace, helmOp: helmOp,
		collection: &collection{logs: map[string][]entry{}, inline: map[string]any{}},
		logOptions: corev1.PodLogOptions{SinceSeconds: sinceOption(d.since)}}
	if d.since == 0 {
		lines := int64(maxLogLines)
		c.logOptions.TailLines = &lines
	}
	if d.allNamespaces {
		c.namespace = ""
	}
	if c.managers, err = newManagers(&d.Base, d.managerNamespace); err != nil {
		return nil, err
	}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, kube.Explain(err)
	}
	if helmOp == "" {
		return c, nil
	}
	_, err = client.HelmOp(ctx, helmOp)
	return c, err
}

// scope describes which objects the archive contains.
func (c *collector) scope() string {
	switch {
	case c.helmOp != "":
		return fmt.Sprintf("the HelmOp %s in namespace %s", c.helmOp, c.namespace)
	case c.namespace == "":
		return "the HelmOps of all namespaces"
	default:
		return "the HelmOps of namespace " + c.namespace
	}
}
