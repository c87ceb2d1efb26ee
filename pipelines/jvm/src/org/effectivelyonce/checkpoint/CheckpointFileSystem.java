package org.effectivelyonce.checkpoint;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * As much of a Hadoop file system as Spark's RocksDB state store asks for beside the checkpoint file manager: it copies the
 * immutable files of a snapshot with {@code copyFromLocalFile} and {@code copyToLocalFile}.
 *
 * <p>Selected by {@code fs.s3.impl}; settings: see {@link Bucket}. Nothing is renamed or appended to.
 */
public final class CheckpointFileSystem extends FileSystem {
  private URI uri;
  private Bucket bucket;
  private Path working;

  @Override
  public void initialize(URI name, Configuration conf) throws IOException {
    super.initialize(name, conf);
    setConf(conf);
    uri = URI.create(name.getScheme() + "://" + name.getAuthority());
    working = new Path(uri.toString() + "/");
    bucket = Bucket.of(working, conf);
  }

  @Override
  public String getScheme() {
    return "s3";
  }

  @Override
  public URI getUri() {
    return uri;
  }

  @Override
  public FSDataInputStream open(Path path, int bufferSize) {
    return bucket.opened(path);
  }

  @Override
  public FSDataOutputStream create(
      Path path, FsPermission permission, boolean overwrite, int bufferSize, short replication, long blockSize,
      Progressable progress) throws IOException {
    Draft draft = new Draft();
    return new FSDataOutputStream(draft, null) {
      private boolean settled;

      @Override
      public void close() throws IOException {
        if (!settled) {
          settled = true;
          bucket.written(path, draft, overwrite);
        }
      }
    };
  }

  /** One PUT straight from the local file. */
  @Override
  public void copyFromLocalFile(boolean deleteSource, Path from, Path to) throws IOException {
    java.nio.file.Path local = Paths.get(from.toUri().getPath());
    bucket.putFile(Bucket.key(to), local);
    if (deleteSource) {
      java.nio.file.Files.delete(local);
    }
  }

  @Override
  public boolean delete(Path path, boolean recursive) {
    bucket.deleteAll(Bucket.key(path));
    return true;
  }

  @Override
  public FileStatus[] listStatus(Path path) {
    List<FileStatus> found = new ArrayList<>();
    for (Bucket.Entry entry : bucket.children(Bucket.key(path) + "/")) {
      found.add(Bucket.status(path, entry));
    }
    return found.toArray(new FileStatus[0]);
  }

  @Override
  public FileStatus getFileStatus(Path path) throws IOException {
    String key = Bucket.key(path);
    Long bytes = bucket.size(key);
    if (bytes != null) {
      return new FileStatus(bytes, false, 1, 1L << 20, 0, path);
    }
    if (key.isEmpty() || !bucket.children(key + "/").isEmpty()) {
      return new FileStatus(0, true, 1, 1L << 20, 0, path);
    }
    throw new FileNotFoundException("checkpoint object " + path + " does not exist");
  }

  /** Folders exist on an object store as soon as something is in them. */
  @Override
  public boolean mkdirs(Path path, FsPermission permission) {
    return true;
  }

  @Override
  public void setWorkingDirectory(Path path) {
    working = path;
  }

  @Override
  public Path getWorkingDirectory() {
    return working;
  }

  @Override
  public boolean rename(Path from, Path to) {
    throw new UnsupportedOperationException("nothing is renamed on an object store");
  }

  @Override
  public FSDataOutputStream append(Path path, int bufferSize, Progressable progress) {
    throw new UnsupportedOperationException("nothing is appended to on an object store");
  }
}
