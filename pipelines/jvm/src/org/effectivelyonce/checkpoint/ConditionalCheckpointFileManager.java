package org.effectivelyonce.checkpoint;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/**
 * Spark checkpoints on an object store, one conditional PUT per file.
 *
 * <p>Spark's own managers write a temporary file and rename it (copy and delete on an object store, neither atomic nor
 * quick), or catch every error of the final close and log it (SPARK-40039), so that a lost offsets file or another
 * driver's file goes unnoticed. Here a file that must be new is created with {@code If-None-Match: *} when its stream
 * is closed, and every failure of that request leaves {@code close()} as an exception: a conflict as
 * {@code FileAlreadyExistsException}, which Spark's metadata log reports as two queries on one checkpoint, anything
 * else as {@link IOException}.
 *
 * <p>Selected by {@code spark.sql.streaming.checkpointFileManagerClass}; settings: see {@link Bucket}.
 */
public final class ConditionalCheckpointFileManager implements CheckpointFileManager {
  private final Path root;
  private final Bucket bucket;

  public ConditionalCheckpointFileManager(Path root, Configuration conf) {
    this.root = root;
    this.bucket = Bucket.of(root, conf);
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) {
    return new AtomicFile(path, overwriteIfPossible, new Draft());
  }

  @Override
  public FSDataInputStream open(Path path) {
    return bucket.opened(path);
  }

  @Override
  public FileStatus[] list(Path path, PathFilter filter) {
    List<FileStatus> found = new ArrayList<>();
    for (Bucket.Entry entry : bucket.children(Bucket.key(path) + "/")) {
      if (filter.accept(new Path(path, entry.name()))) {
        found.add(Bucket.status(path, entry));
      }
    }
    return found.toArray(new FileStatus[0]);
  }

  /** Folders exist on an object store as soon as something is in them. */
  @Override
  public void mkdirs(Path path) {}

  @Override
  public boolean exists(Path path) {
    return bucket.size(Bucket.key(path)) != null || !bucket.children(Bucket.key(path) + "/").isEmpty();
  }

  @Override
  public void delete(Path path) {
    bucket.deleteAll(Bucket.key(path));
  }

  @Override
  public boolean isLocal() {
    return false;
  }

  @Override
  public Path createCheckpointDirectory() {
    return root;
  }

  /** Holds the content until close, which is the one request that makes the file visible. */
  private final class AtomicFile extends CancellableFSDataOutputStream {
    private final Path path;
    private final boolean overwrite;
    private final Draft draft;
    private boolean settled;

    AtomicFile(Path path, boolean overwrite, Draft draft) {
      super(draft);
      this.path = path;
      this.overwrite = overwrite;
      this.draft = draft;
    }

    @Override
    public void cancel() {
      settled = true;
      try {
        draft.discard();
      } catch (IOException left) {
        throw Unchecked.<RuntimeException>thrown(left);
      }
    }

    @Override
    public void close() throws IOException {
      if (settled) {
        return;
      }
      // Settled also when the request fails: a second close must not send what Spark has been told is lost.
      settled = true;
      flush();
      bucket.written(path, draft, overwrite);
    }
  }
}
