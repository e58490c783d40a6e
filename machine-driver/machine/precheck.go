package machine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"docker-machine-driver-laneway/cluster"
	"docker-machine-driver-laneway/manifest"
)

// PreCreateCheck says whether the machine can be made, and makes nothing. Last of all the VM itself is
// created as a trial: admission judges it with all that is in use and reserved at this moment. In a
// rolling update that includes the old machines, which go only once this one runs.
func (m *Machine) PreCreateCheck(ctx context.Context) error {
	client, err := m.connect()
	if err != nil {
		return err
	}
	if err := m.checkServer(ctx, client); err != nil {
		return err
	}
	vm, err := m.vm(ctx)
	if err != nil {
		return fmt.Errorf("whether %s exists cannot be read: %w", m.title(), err)
	}
	if vm != nil {
		return fmt.Errorf("%s exists already. Delete or rename it, or choose another name for the machine",
			m.title())
	}
	if err := m.checkKeyPair(ctx, client); err != nil {
		return err
	}
	if err := m.checkNetworks(ctx, client); err != nil {
		return err
	}
	if m.SSHPrivateKeyPath != "" {
		if _, _, err := m.givenKeys(); err != nil {
			return err
		}
	}
	m.MachineID = random(16)
	if _, err := m.userData(); err != nil {
		return err
	}
	made, err := m.manifest(ctx, client)
	if err != nil {
		return err
	}
	return m.try(ctx, client, made)
}

// try has the API server judge the VM without storing it. Where only devices are lacking, those of a
// machine that is just being removed may be about to come back, so it is asked again for a short time.
func (m *Machine) try(ctx context.Context, client *cluster.Client, vm cluster.Object) error {
	limit := time.Now().Add(duration(settling))
	for {
		warnings, err := m.trial(ctx, client, vm)
		if cluster.IsOnly(err, "InsufficientDevices", "NoNodeFits") && time.Now().Before(limit) {
			if err := pause(ctx); err != nil {
				return err
			}
			continue
		}
		for _, text := range warnings {
			say("Warning: %s", text)
		}
		if err != nil {
			return fmt.Errorf("Harvester would refuse %s: %w", m.title(), err)
		}
		return nil
	}
}

func (m *Machine) trial(
	ctx context.Context, client *cluster.Client, vm cluster.Object,
) (warnings []string, err error) {
	client.Warn = func(text string) { warnings = append(warnings, text) }
	defer func() { client.Warn = nil }()
	path := cluster.Path(kubevirt, m.VMNamespace, vms) + "?dryRun=All"
	err = client.Create(ctx, path, vm, nil)
	return warnings, err
}

func (m *Machine) checkServer(ctx context.Context, client *cluster.Client) error {
	var setting struct {
		Value   string `json:"value"`
		Default string `json:"default"`
	}
	path := cluster.Path(harvester, "", "settings", "server-version")
	if err := client.Get(ctx, path, &setting); err != nil {
		return fmt.Errorf("the version of Harvester cannot be read: %w", err)
	}
	m.ServerVersion = setting.Value
	if m.ServerVersion == "" {
		m.ServerVersion = setting.Default
	}
	return nil
}

func (m *Machine) checkKeyPair(ctx context.Context, client *cluster.Client) error {
	if m.KeyPairName == "" {
		return nil
	}
	var pair struct {
		Spec struct {
			PublicKey string `json:"publicKey"`
		} `json:"spec"`
		Status struct {
			Conditions conditions `json:"conditions"`
		} `json:"status"`
	}
	namespace, name := m.Named(m.KeyPairName)
	err := client.Get(ctx, cluster.Path(harvester, namespace, "keypairs", name), &pair)
	if err := about("keyPairName", "key pair", "keypairs", namespace, name, err); err != nil {
		return err
	}
	if validated := pair.Status.Conditions.of("validated"); validated.Status != "True" {
		reason := or(validated.Message, "it has not been looked at yet")
		return fmt.Errorf("key pair %s/%s is not validated by Harvester: %s", namespace, name, reason)
	}
	m.SSHPublicKey = pair.Spec.PublicKey
	return nil
}

func (m *Machine) checkNetworks(ctx context.Context, client *cluster.Client) error {
	for _, network := range m.Networks() {
		namespace, name := m.Named(network.NetworkName)
		resource := "network-attachment-definitions"
		path := cluster.Path("k8s.cni.cncf.io/v1", namespace, resource, name)
		err := client.Get(ctx, path, nil)
		if err := about("networkName", "VM network", resource, namespace, name, err); err != nil {
			return err
		}
	}
	return nil
}

// manifest is the VM with what only Harvester knows of its disks.
func (m *Machine) manifest(ctx context.Context, client *cluster.Client) (cluster.Object, error) {
	given, first := m.Disks()
	disks := make([]manifest.Disk, 0, len(given))
	for number, one := range given {
		name := manifest.DiskName(first + number)
		disk := manifest.Disk{Disk: one, Name: name, Class: one.StorageClassName}
		disk.Claim = fmt.Sprintf("%s-%s-%s", m.Settings.MachineName, name, random(5))
		if err := m.find(ctx, client, &disk); err != nil {
			return nil, err
		}
		disks = append(disks, disk)
	}
	return manifest.VM(&m.Settings, disks)
}

// find looks for the image and the storage class of a disk.
func (m *Machine) find(ctx context.Context, client *cluster.Client, disk *manifest.Disk) error {
	if disk.StorageClassName != "" {
		path := cluster.Path("storage.k8s.io/v1", "", "storageclasses", disk.StorageClassName)
		err := client.Get(ctx, path, nil)
		err = about("storageClassName", "storage class", "storageclasses", "", disk.StorageClassName, err)
		if err != nil {
			return err
		}
	}
	if disk.ImageName == "" {
		return nil
	}
	var image struct {
		Status struct {
			StorageClass string     `json:"storageClassName"`
			Conditions   conditions `json:"conditions"`
		} `json:"status"`
	}
	namespace, name := m.Named(disk.ImageName)
	err := client.Get(ctx, cluster.Path(harvester, namespace, "virtualmachineimages", name), &image)
	if err := about("imageName", "image", "virtualmachineimages", namespace, name, err); err != nil {
		return err
	}
	if imported := image.Status.Conditions.of("Imported"); imported.Status == "False" {
		return fmt.Errorf("image %s/%s is not imported: %s", namespace, name, imported.Message)
	}
	if image.Status.StorageClass == "" {
		return fmt.Errorf("image %s/%s is not ready: it has no storage class yet", namespace, name)
	}
	disk.Image, disk.Class = namespace+"/"+name, image.Status.StorageClass
	return nil
}

// about says what it means for a field of the configuration that its object cannot be read.
func about(field, kind, resource, namespace, name string, err error) error {
	title := name
	if namespace != "" {
		title = namespace + "/" + name
	}
	if cluster.IsGone(err, resource, name) {
		return fmt.Errorf("%s: Harvester has no %s %s", field, kind, title)
	}
	if err != nil {
		return fmt.Errorf("%s: %s %s cannot be read: %w", field, kind, title, err)
	}
	return nil
}

// random is a text of so many letters that is in use nowhere.
func random(letters int) string {
	data := make([]byte, letters)
	if _, err := rand.Read(data); err != nil {
		panic(err)
	}
	return hex.EncodeToString(data)[:letters]
}
